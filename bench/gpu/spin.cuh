// What the measuring kernels share: the GPU's clock.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <partita/device.cuh>

namespace partita::bench::gpu {

/// Nanoseconds of the GPU's global timer.
__device__ inline std::uint64_t gpu_now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

}  // namespace partita::bench::gpu
