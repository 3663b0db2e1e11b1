// The clocks of a GPU, for the measuring kernels of Partita and of its peers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace partita::bench::gpu {

/// Nanoseconds of the GPU's global timer.
__device__ inline std::uint64_t gpu_now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

/// Nanoseconds of a step of clock64(), which changes with the GPU's frequency. Both readings lie on a step of the
/// coarse global timer.
__device__ inline double clock_step_ns() {
  constexpr std::uint64_t long_enough_ns = 30000;
  const std::uint64_t before_ns = gpu_now_ns();
  std::uint64_t begin_ns = before_ns;
  while (begin_ns == before_ns) begin_ns = gpu_now_ns();
  const long long begin = clock64();
  std::uint64_t end_ns = begin_ns;
  while (end_ns - begin_ns < long_enough_ns) end_ns = gpu_now_ns();
  return static_cast<double>(end_ns - begin_ns) / static_cast<double>(clock64() - begin);
}

/// Nanoseconds of `steps` of clock64(), measured now.
__device__ inline std::uint64_t clock_steps_to_ns(long long steps) {
  return static_cast<std::uint64_t>(static_cast<double>(steps) * clock_step_ns() + 0.5);
}

}  // namespace partita::bench::gpu
