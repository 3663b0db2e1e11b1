// Words of host memory at which a stream and the host's threads meet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/epoch.hpp"
#include "memory/device.hpp"

namespace partita {

/// Counts on from word to word; the words are compared as counters that wrap.
inline bool has_come_to(std::uint32_t counter, std::uint32_t place) {
  return static_cast<std::int32_t>(counter - place) >= 0;
}

/// A word of host memory that a GPU uses, too.
class SharedWord {
 public:
  SharedWord(memory::DeviceMemory& device_memory, int device, std::byte* address)
      : word_(*reinterpret_cast<Epoch*>(address)),
        on_gpu_(reinterpret_cast<Epoch*>(device_memory.device_pointer(device, address))) {}

  Epoch* on_gpu() const { return on_gpu_; }
  std::uint32_t load() const { return std::atomic_ref(word_).load(std::memory_order_acquire); }
  void store(std::uint32_t value) { std::atomic_ref(word_).store(value, std::memory_order_release); }

 private:
  Epoch& word_;
  Epoch* on_gpu_;
};

}  // namespace partita
