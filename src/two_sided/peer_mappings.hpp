// Memory of peers' GPUs that collectives write to.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "memory/device.hpp"

namespace partita {

/// Keeps what calls have mapped of peers' memory for the next ones. Any thread.
class PeerMappings {
 public:
  explicit PeerMappings(memory::DeviceMemory& device_memory) : device_memory_(device_memory) {}

  using Held = std::vector<std::shared_ptr<std::byte>>;
  /// DeviceMemory::import.
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> map(int peer, const memory::DevicePiece& piece,
                                                                    int device);
  /// A call has ended that used these. Returns whether those of a call long ago are let go of.
  bool keep(Held used);

  /// This rank could not name memory that it had found fit. Peers may keep descriptors that were passed for that call,
  /// which nobody makes: after some of these it names no more.
  void could_not_name() { ++not_named_; }
  bool may_name() const { return not_named_ < not_named_at_most; }

 private:
  static constexpr int not_named_at_most = 16;
  static constexpr std::size_t calls_kept = 64;

  memory::DeviceMemory& device_memory_;
  std::mutex mutex_;
  std::deque<Held> recent_;
  std::atomic<int> not_named_{0};
};

}  // namespace partita
