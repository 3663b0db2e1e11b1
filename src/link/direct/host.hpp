// Link `direct` between hosts: the sender and the receiver, each with its part of the way that the receiver has chosen.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "link/context.hpp"
#include "link/direct/fetching.hpp"
#include "link/direct/messages.hpp"
#include "link/direct/way.hpp"
#include "link/link.hpp"
#include "memory/blocks.hpp"

namespace partita::link::direct {

class HostSender final : public Sender {
 public:
  HostSender(const Context& context, const Endpoint& endpoint);

  wire::Bytes offer() override;
  std::variant<SenderFacts, Obstacle> connect(const Plan& plan, std::byte* data,
                                              std::span<const std::byte> answer) override;

  void start(Epoch epoch) override {
    previous_ = current_;
    current_ = epoch;
  }
  // Slots come twice: those of an epoch are free again once the receiver has opened the epoch after it.
  bool ready(Epoch epoch) const override { return has_opened(may_be_ahead_ ? previous_ : epoch); }
  bool prepared(Epoch epoch) const override { return has_opened(epoch); }
  void put(Range run, Epoch epoch) override { return puts_->put(run, epoch); }
  bool finished() override { return puts_->finished(); }
  void give_up(Epoch epoch) override {
    if (board_) board_->end();
    puts_->give_up(epoch);
  }

 private:
  SenderWords& words() const { return *reinterpret_cast<SenderWords*>(words_block_.address()); }
  // Pairs with the store in HostReceiver::tell_opened.
  bool has_opened(Epoch epoch) const {
    return reached(EpochWord(words().credit).load(std::memory_order_acquire), epoch);
  }
  std::unique_ptr<Puts> make_puts(const Plan& plan, const std::byte* data, const Answer& answer);

  Context context_;
  Endpoint endpoint_;
  memory::HostBlock words_block_;
  std::unique_ptr<Puts> puts_;
  std::optional<HoldBoard> board_;
  bool may_be_ahead_ = false;
  Epoch current_;
  Epoch previous_;
};

class HostReceiver final : public Receiver {
 public:
  /// `transfers`: in how many all of it travels where it is complete together.
  HostReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, std::int32_t transfers,
               const Offer& offer, Way way);

  ReceiverAnswer answer() override;

  void open(Epoch epoch) override {
    if (fetching_ != nullptr) return open_fetching(epoch);
    tell_opened(epoch);
  }
  bool arrived(std::int32_t t, Epoch epoch) override {
    return arrivals_->arrived(t, epoch) || (fetching_ != nullptr && fetching_->fetched(t, epoch, *arrivals_));
  }
  std::int64_t first_missing(Range run, Epoch epoch) override {
    std::int64_t t = arrivals_->first_missing(run, epoch);
    while (t < run.end && fetched_meanwhile(t, epoch)) t = arrivals_->first_missing({t + 1, run.end}, epoch);
    return t;
  }

 private:
  void open_fetching(Epoch epoch);  // not inlined: without it an epoch opens in a few instructions
  // Pairs with the load in HostSender::has_opened.
  void tell_opened(Epoch epoch) { EpochWord(words_.credit).store(epoch, std::memory_order_release); }
  std::unique_ptr<Arrivals> make_arrivals(const Plan& plan, const Offer& offer);
  std::unique_ptr<Fetching> make_fetching(const Plan& plan, std::int32_t transfers, const Offer& offer) const;
  bool fetched_meanwhile(std::int64_t t, Epoch epoch) {
    return fetching_ != nullptr && fetching_->fetched_meanwhile(static_cast<std::int32_t>(t), epoch, *arrivals_);
  }

  Context context_;
  Endpoint endpoint_;
  Way way_;
  SenderWords& words_;
  memory::HostBlock block_;  ///< flags, and what else the way has in this memory
  std::unique_ptr<Arrivals> arrivals_;
  std::unique_ptr<Fetching> fetching_;  ///< where the sender may hold something
};

}  // namespace partita::link::direct
