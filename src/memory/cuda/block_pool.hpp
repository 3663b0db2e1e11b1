// Small pieces of GPU memory for flags, counters and packets.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/cuda/context.hpp"

namespace partita::memory::cuda {

/// Cut from slabs, which others of the node map once. Any thread may call.
class BlockPool {
 public:
  explicit BlockPool(Contexts& contexts) : contexts_(contexts) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// See DeviceMemory.
  std::byte* allocate(int device, std::size_t size_bytes);
  std::byte* allocate_unzeroed(int device, std::size_t size_bytes);
  void free(int device, std::byte* block, std::size_t size_bytes);

 private:
  struct Gpu {
    std::vector<std::byte*> slabs;
    std::map<std::size_t, std::vector<std::byte*>> free_blocks;  ///< by rounded size; contents are anything
    std::byte* next = nullptr;                                   ///< unused, zeroed rest of the newest slab
    std::byte* end = nullptr;
  };
  std::byte* take_free(Gpu& gpu, std::size_t size);
  std::byte* cut(Gpu& gpu, int device, std::size_t size);
  std::byte* create_slab(Gpu& gpu, int device, std::size_t size_bytes);
  void zero(int device, std::byte* first, std::size_t size_bytes);

  Contexts& contexts_;
  std::mutex mutex_;
  std::map<int, Gpu> gpus_;
};

}  // namespace partita::memory::cuda
