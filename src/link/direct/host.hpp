// Link `direct` between hosts: what its four ways have in common. The receiver chooses the way; a way has a part at the
// sender, which puts, and one at the receiver, which sees arrivals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "link/context.hpp"
#include "link/direct/messages.hpp"
#include "link/link.hpp"
#include "memory/blocks.hpp"

namespace partita::link::direct {

using EpochWord = std::atomic_ref<Epoch>;

/// What of the sender's memory the receiver writes.
struct SenderWords {
  Epoch credit;          ///< the newest epoch that the receiver has opened
  std::uint64_t pulled;  ///< chunks that it has ever claimed and let go of, where it shares the copy
};

/// The arrival flags of a request's transport partitions, one behind the other in the receiver's memory. A flag holds
/// the newest epoch in which its transport partition arrived.
class Flags {
 public:
  explicit Flags(std::byte* first) : first_(reinterpret_cast<Epoch*>(first)) {}
  /// Of the flags of `plan`, so that data may follow.
  static std::size_t size_bytes(const Plan& plan) {
    return (static_cast<std::size_t>(plan.transport_partitions()) * sizeof(Epoch) + 15) / 16 * 16;
  }

  /// Releases the bytes of `run` to whoever finds a flag of it raised.
  void raise(Range run, Epoch epoch) const {
    for (std::int64_t t = run.begin; t < run.end; ++t) EpochWord(first_[t]).store(epoch, std::memory_order_release);
  }
  /// Acquires what raise has released.
  bool raised(std::int32_t t, Epoch epoch) const {
    return EpochWord(first_[t]).load(std::memory_order_acquire) == epoch;
  }

 private:
  Epoch* first_;
};

/// The part of a way at the sender. Its calls are those of a Sender.
class Puts {
 public:
  virtual ~Puts() = default;
  virtual void put(Range run, Epoch epoch) = 0;
  virtual bool finished() { return true; }
  virtual void give_up(Epoch) {}
};

/// The part of a way at the receiver. Its calls are those of a Receiver.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual bool arrived(std::int32_t t, Epoch epoch) = 0;
  virtual const std::byte* landing(Epoch epoch) const = 0;
  /// How the bytes move; a clause for `partita info`.
  virtual std::string description() const = 0;
};

/// Arrivals in the user's buffer that flags tell of.
class ArrivalsInPlace : public Arrivals {
 public:
  ArrivalsInPlace(Flags flags, const std::byte* buffer) : flags_(flags), buffer_(buffer) {}
  bool arrived(std::int32_t t, Epoch epoch) final { return flags_.raised(t, epoch); }
  const std::byte* landing(Epoch) const final { return buffer_; }

 private:
  Flags flags_;
  const std::byte* buffer_;
};

class HostSender final : public Sender {
 public:
  HostSender(const Context& context, const Endpoint& endpoint);

  wire::Bytes offer() override;
  void connect(const Plan& plan, std::byte* data, std::span<const std::byte> answer) override;

  void start(Epoch epoch) override {
    previous_ = current_;
    current_ = epoch;
  }
  // Slots come twice: those of an epoch are free again once the receiver has opened the epoch after it.
  bool ready(Epoch epoch) const override { return has_opened(may_be_ahead_ ? previous_ : epoch); }
  bool prepared(Epoch epoch) const override { return has_opened(epoch); }
  void put(Range run, Epoch epoch) override { return puts_->put(run, epoch); }
  bool finished() override { return puts_->finished(); }
  void give_up(Epoch epoch) override { puts_->give_up(epoch); }

 private:
  SenderWords& words() const { return *reinterpret_cast<SenderWords*>(words_block_.address()); }
  // Pairs with the store in HostReceiver::open.
  bool has_opened(Epoch epoch) const {
    return reached(EpochWord(words().credit).load(std::memory_order_acquire), epoch);
  }
  std::unique_ptr<Puts> make_puts(const Plan& plan, const std::byte* data, const Answer& answer);

  Context context_;
  Endpoint endpoint_;
  memory::HostBlock words_block_;
  std::unique_ptr<Puts> puts_;
  bool may_be_ahead_ = false;
  Epoch current_;
  Epoch previous_;
};

class HostReceiver final : public Receiver {
 public:
  HostReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, const Offer& offer, Way way);

  wire::Bytes answer() override;

  // Pairs with the load in HostSender::has_opened.
  void open(Epoch epoch) override { EpochWord(words_.credit).store(epoch, std::memory_order_release); }
  bool arrived(std::int32_t t, Epoch epoch) override { return arrivals_->arrived(t, epoch); }
  const std::byte* landing(Epoch epoch) const override { return arrivals_->landing(epoch); }

  std::string description() const { return arrivals_->description(); }

 private:
  std::unique_ptr<Arrivals> make_arrivals(const Plan& plan, const Offer& offer);

  Context context_;
  Endpoint endpoint_;
  Way way_;
  SenderWords& words_;
  memory::HostBlock block_;  ///< flags, and what else the way has in this memory
  std::unique_ptr<Arrivals> arrivals_;
};

}  // namespace partita::link::direct
