#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/mapped_copy.hpp"
#include "memory/grid.hpp"

namespace partita::bench::gpu {

namespace {

/// In units of 16 bytes, and what is left over in bytes.
__global__ void __launch_bounds__(512) copy_mapped(std::byte* to, const std::byte* from, std::int64_t size_bytes) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t units = size_bytes / static_cast<std::int64_t>(sizeof(uint4));
  for (std::int64_t unit = thread; unit < units; unit += threads)
    reinterpret_cast<uint4*>(to)[unit] = reinterpret_cast<const uint4*>(from)[unit];
  const std::int64_t rest = units * static_cast<std::int64_t>(sizeof(uint4)) + thread;
  if (rest < size_bytes) to[rest] = from[rest];
}

}  // namespace

void launch_mapped_copy(std::byte* to, const std::byte* from, std::int64_t size_bytes, cudaStream_t stream) {
  const memory::Grid grid = memory::grid_for(size_bytes);
  copy_mapped<<<grid.blocks, grid.threads, 0, stream>>>(to, from, size_bytes);
  check(cudaGetLastError(), "The launch of the kernel that copies");
}

}  // namespace partita::bench::gpu
