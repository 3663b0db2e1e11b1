// What the measuring kernels share: the GPU's clock, and waits that end.
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

/// All threads of the block: waits until `partition` has arrived; 0, or why it did not. Ends with the request's time
/// limit.
__device__ inline int await_partition(const MPIX_Prequest& request, int partition) {
  constexpr unsigned polls_per_look = 1024;
  int code = 0;
  if (threadIdx.x == 0) {
    const std::uint64_t begin_ns = gpu_now_ns();
    int arrived = 0;
    for (unsigned polls = 1; arrived == 0 && code == 0; ++polls) {
      code = MPIX_Parrived(request, partition, &arrived);
      const bool late =
          polls % polls_per_look == 0 && request.limit_ns != 0 && gpu_now_ns() - begin_ns > request.limit_ns;
      if (code == 0 && arrived == 0 && late) code = PARTITA_DEVICE_ERR_TIMEOUT;
    }
  }
  return __syncthreads_or(code);
}

}  // namespace partita::bench::gpu
