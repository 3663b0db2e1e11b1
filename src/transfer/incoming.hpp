// The receiving half of a transfer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transfer/half.hpp"

namespace partita {

class Incoming final : public Half, private StagedArrivals::Owner {
 public:
  Incoming(const Services& services, User& user, HalfTerms terms);
  ~Incoming() override;

  /// The Matcher found the sender. Once, any thread.
  /// `wire`: what the link moves `plan` in, where one side is staged. `form`: the kind of the endpoint that `link` was
  /// made for.
  /// `facts`: what `link` has answered of itself.
  void connect(const link::Plan& plan, const link::Plan& wire, std::unique_ptr<link::Receiver> link,
               const link::ReceiverFacts& facts, memory::Kind form, std::string link_name, std::string reason);
  /// The first of these transport partitions of the epoch that has not arrived, or transports.end: the bytes of those
  /// before it are visible, in the program's buffer where that is staged. For who waits for all of the epoch. Several
  /// threads at once. Makes progress.
  std::int64_t first_missing(link::Range transports) const {
    if (facts_.host_flags) {
      transports.begin = facts_.host_flags->first_not_raised(transports, epoch());
      if (facts_.host_flags->tell_all || transports.size() == 0) return transports.begin;
    }
    return ask_for_missing(transports);
  }
  /// As first_missing(), for who asks for these alone: prompt, too, where the sender lets them wait for their
  /// neighbours.
  std::int64_t first_missing_alone(link::Range transports) const {
    const std::int64_t t = first_missing(transports);
    return t == transports.end ? t : ask_for_missing_alone({t, transports.end});
  }
  bool arrived(link::Range transports) const { return first_missing_alone(transports) == transports.end; }
  bool all_arrived() const {
    const link::Range all{0, plan().transport_partitions()};
    return first_missing(all) == all.end;
  }
  /// Where the epoch's packed bytes land: packed(), or memory of the link's own or of this half, from which they are
  /// copied before the next epoch opens.
  const std::byte* landing() const { return facts_.landing(epoch()); }
  bool needs_progress() const { return facts_.needs_progress; }
  /// As the sender's HalfTerms; once matched.
  const wire::Bytes& enclosed() const { return enclosed_; }
  /// The Matcher's, before the match.
  void enclose(wire::Bytes enclosed) { enclosed_ = std::move(enclosed); }
  bool has_device_route() const { return facts_.has_device_route; }
  /// How kernels see arrivals by themselves; none where they cannot.
  std::optional<link::DeviceRecvRoute> device_route() {
    if (!facts_.has_device_route) return std::nullopt;
    return link_->device_route();
  }
  void start() override;
  void withdraw() override;
  void give_up_epoch() override { withdraw(); }
  void release_memory() override;
  bool release_peer(bool complete) override { return link_ == nullptr || link_->release_peer(complete); }

 private:
  /// Promises the sender that the memory may be written in this epoch.
  void open() override;
  void open_link() {
    link_->open(epoch());
    if (staged_ != nullptr) staged_->open(epoch());
  }
  void could_not_take() noexcept override;
  std::int64_t ask_for_missing(link::Range transports) const;
  std::int64_t ask_for_missing_alone(link::Range transports) const;

  wire::Bytes enclosed_;
  std::unique_ptr<link::Receiver> link_;
  std::unique_ptr<StagedArrivals> staged_;  ///< where one side is staged
  link::ReceiverFacts facts_;  ///< the link's; where a side is staged without flags, and with landings here
};

}  // namespace partita
