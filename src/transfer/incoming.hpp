// The receiving half of a transfer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transfer/half.hpp"

namespace partita {

class Incoming final : public Half {
 public:
  Incoming(const Services& services, User& user, HalfTerms terms);
  ~Incoming() override;

  /// The Matcher found the sender. Once, any thread.
  void connect(const link::Plan& plan, std::unique_ptr<link::Receiver> link, std::string link_name, std::string reason);
  /// Promises the sender that the memory may be written in this epoch. Matched, or in User::before_match.
  void open() { link_->open(epoch()); }
  /// Whether these transport partitions of the epoch have arrived: their bytes are visible then. Several threads at
  /// once. Makes progress.
  bool arrived(link::Range transports) const;
  bool all_arrived() const { return arrived({0, plan().transport_partitions()}); }
  /// Where the epoch's packed bytes land: packed(), or memory of the link's own or of this half, from which they are
  /// copied before the next epoch opens.
  const std::byte* landing() const { return link_->landing(epoch()); }
  bool needs_progress() const { return link_->needs_progress(); }
  std::optional<link::DeviceRecvRoute> device_route() { return link_->device_route(); }
  void release_memory() override;

 private:
  std::unique_ptr<link::Receiver> link_;
};

}  // namespace partita
