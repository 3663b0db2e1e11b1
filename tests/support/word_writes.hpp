// What a stream that is not CUDA's makes of the words that it is asked to write.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/stream.hpp"

namespace partita::test {

inline void make(const memory::WordWrite& write) {
  if (write.bytes == sizeof(std::uint64_t)) {
    std::atomic_ref(*static_cast<std::uint64_t*>(write.word)).store(write.value, std::memory_order_release);
  } else {
    const auto value = static_cast<std::uint32_t>(write.value);
    std::atomic_ref(*static_cast<std::uint32_t*>(write.word)).store(value, std::memory_order_release);
  }
}

}  // namespace partita::test
