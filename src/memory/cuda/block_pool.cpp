#include "memory/cuda/block_pool.hpp"

#include <algorithm>
#include <bit>

#include "memory/cuda/check.hpp"
#include "memory/cuda/drain.hpp"
#include "memory/cuda/pointer.hpp"

namespace partita::memory::cuda {
namespace {

constexpr std::size_t line_bytes = 128;
/// The driver's own unit: a smaller slab would be exported together with memory of the program.
constexpr std::size_t slab_bytes = std::size_t{2} << 20;

/// Blocks come in few sizes, so that freed ones fit again: powers of two, and large ones, of which the rest would be a
/// waste, seven between two of these.
std::size_t block_class(std::size_t size_bytes) {
  if (size_bytes <= slab_bytes) return std::bit_ceil(std::max(size_bytes, line_bytes));
  const std::size_t step = std::bit_floor(size_bytes) / 8;
  return (size_bytes + step - 1) / step * step;
}

}  // namespace

BlockPool::~BlockPool() {
  for (auto& [device, gpu] : gpus_) {
    if (gpu.slabs.empty()) continue;
    const InContext in_context(contexts_.of(device));
    for (std::byte* slab : gpu.slabs) PARTITA_CU_QUIETLY(cuMemFree, device_address(slab));
  }
}

std::byte* BlockPool::allocate(int device, std::size_t size_bytes) {
  const std::size_t size = block_class(size_bytes);
  const InContext in_context(contexts_.of(device));
  const std::lock_guard lock(mutex_);
  Gpu& gpu = gpus_[device];
  std::byte* const block = take_free(gpu, size);
  if (block == nullptr) return cut(gpu, device, size);
  try {
    zero(device, block, size);
  } catch (...) {
    gpu.free_blocks[size].push_back(block);
    throw;
  }
  return block;
}

std::byte* BlockPool::allocate_unzeroed(int device, std::size_t size_bytes) {
  const std::size_t size = block_class(size_bytes);
  const std::lock_guard lock(mutex_);
  Gpu& gpu = gpus_[device];
  if (std::byte* const block = take_free(gpu, size)) return block;
  const InContext in_context(contexts_.of(device));
  return cut(gpu, device, size);
}

/// Null where there is none.
std::byte* BlockPool::take_free(Gpu& gpu, std::size_t size) {
  auto& free = gpu.free_blocks[size];
  if (free.empty()) return nullptr;
  std::byte* const block = free.back();
  free.pop_back();
  return block;
}

/// A zeroed one from the newest slab, or from a new one.
std::byte* BlockPool::cut(Gpu& gpu, int device, std::size_t size) {
  if (size > slab_bytes / 4) return create_slab(gpu, device, std::max(size, slab_bytes));
  if (static_cast<std::size_t>(gpu.end - gpu.next) < size) {
    gpu.next = create_slab(gpu, device, slab_bytes);
    gpu.end = gpu.next + slab_bytes;
  }
  std::byte* block = gpu.next;
  gpu.next += size;
  return block;
}

void BlockPool::free(int device, std::byte* block, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  gpus_[device].free_blocks[block_class(size_bytes)].push_back(block);
}

std::byte* BlockPool::create_slab(Gpu& gpu, int device, std::size_t size_bytes) {
  gpu.slabs.reserve(gpu.slabs.size() + 1);
  CUdeviceptr slab = 0;
  PARTITA_CU(cuMemAlloc, &slab, size_bytes);
  gpu.slabs.push_back(reinterpret_cast<std::byte*>(slab));
  zero(device, gpu.slabs.back(), size_bytes);
  return gpu.slabs.back();
}

void BlockPool::zero(int device, std::byte* first, std::size_t size_bytes) {
  const CUstream stream = contexts_.stream(device);
  PARTITA_CU(cuMemsetD8Async, device_address(first), 0, size_bytes, stream);
  drain(stream, device, contexts_.meanwhile());
}

}  // namespace partita::memory::cuda
