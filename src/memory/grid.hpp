// How many threads the library's own kernels get.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory/kernels.hpp"

namespace partita::memory {

/// For a kernel that reads and writes `bytes`, 16 a thread at a time: enough for the memory of any GPU to be the limit.
inline Grid grid_for(std::int64_t bytes) {
  constexpr unsigned block_threads = 512;
  constexpr std::int64_t bytes_each_block = block_threads * 16;
  constexpr std::int64_t most_blocks = 1024;
  const std::int64_t blocks = (bytes + bytes_each_block - 1) / bytes_each_block;
  return {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most_blocks)), block_threads};
}

}  // namespace partita::memory
