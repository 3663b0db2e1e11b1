// Memory of peers' GPUs that collectives write to.
#pragma once

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

 private:
  static constexpr std::size_t calls_kept = 64;

  memory::DeviceMemory& device_memory_;
  std::mutex mutex_;
  std::deque<Held> recent_;
};

}  // namespace partita
