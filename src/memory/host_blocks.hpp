// Blocks of host memory that the ranks of the node can map.
#pragma once

#include <cstddef>

#include "memory/memory.hpp"

namespace partita::memory {

/// Any thread may call. Members throw Error (no_mem).
class HostBlocks {
 public:
  /// For Partita itself: flags, slots, staging. Aligned to cache lines, zeroed. What is freed keeps its place, and the
  /// system gets its pages back.
  virtual std::byte* allocate_block(std::size_t size_bytes) = 0;
  virtual void free_block(std::byte* block, std::size_t size_bytes) = 0;
  /// The block is never freed, and stays mapped to the end of the process: someone else may still use it.
  virtual void leave_block(std::byte* block) noexcept = 0;
  /// host_exported where [address, address + size_bytes) can be mapped by the ranks of the node, else host.
  virtual Kind kind_of(const void* address, std::size_t size_bytes) const = 0;

 protected:
  ~HostBlocks() = default;
};

}  // namespace partita::memory
