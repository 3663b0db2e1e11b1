#include "bench/gpu/queue_kernels.hpp"

#include <algorithm>

#include "bench/gpu/cuda_check.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int copying_threads = 256;
constexpr std::int64_t most_copying_blocks = 1024;
constexpr std::int64_t unit_bytes = sizeof(uint4);

__device__ std::int64_t first_unit() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// `add4` has the addend in each of its bytes.
__global__ void __launch_bounds__(copying_threads)
    copy_and_add(const std::byte* from, std::byte* to, std::int64_t size_bytes, unsigned add4) {
  const std::int64_t units = size_bytes / unit_bytes;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first_unit(); i < units; i += step) {
    uint4 unit = reinterpret_cast<const uint4*>(from)[i];
    unit.x = __vadd4(unit.x, add4);
    unit.y = __vadd4(unit.y, add4);
    unit.z = __vadd4(unit.z, add4);
    unit.w = __vadd4(unit.w, add4);
    reinterpret_cast<uint4*>(to)[i] = unit;
  }
  for (std::int64_t i = units * unit_bytes + first_unit(); i < size_bytes; i += step) {
    to[i] = static_cast<std::byte>(static_cast<unsigned>(from[i]) + (add4 & 0xff));
  }
}

__global__ void nothing() {}

}  // namespace

void launch_copy(const std::byte* from, std::byte* to, std::int64_t size_bytes, std::uint8_t add, cudaStream_t stream) {
  const std::int64_t wanted = (size_bytes / unit_bytes + copying_threads - 1) / copying_threads;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, most_copying_blocks));
  copy_and_add<<<blocks, copying_threads, 0, stream>>>(from, to, size_bytes, add * 0x01010101u);
  check(cudaGetLastError(), "The launch of the packing kernel");
}

void launch_nothing(cudaStream_t stream) {
  nothing<<<1, 1, 0, stream>>>();
  check(cudaGetLastError(), "The launch of the empty kernel");
}

}  // namespace partita::bench::gpu
