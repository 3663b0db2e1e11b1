#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/mark_cost.hpp"

namespace partita::bench::gpu {

namespace {

template <Granularity granularity>
__device__ int mark(const MPIX_Prequest& send) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (granularity == Granularity::thread) return MPIX_Pready_thread(thread, send);
  if constexpr (granularity == Granularity::warp) return MPIX_Pready_warp(thread / warpSize, send);
  if constexpr (granularity == Granularity::block) return MPIX_Pready_block(0, send);
  return MPIX_Pready(thread, send);
}

template <Granularity granularity>
__global__ void __launch_bounds__(1024) marking(const __grid_constant__ MPIX_Prequest send, KernelReport* report) {
  __syncthreads();
  const long long begin = clock64();
  const int code = mark<granularity>(send);
  const int worst = __syncthreads_or(code);
  const long long end = clock64();
  if (threadIdx.x != 0) return;
  const std::uint64_t spent_ns = clock_steps_to_ns(end - begin);
  *report = {spent_ns, spent_ns, worst};
}

}  // namespace

void launch_marking(const MPIX_Prequest& send, Granularity granularity, int threads, KernelReport* report,
                    cudaStream_t stream) {
  switch (granularity) {
    case Granularity::thread:
      marking<Granularity::thread><<<1, threads, 0, stream>>>(send, report);
      break;
    case Granularity::warp:
      marking<Granularity::warp><<<1, threads, 0, stream>>>(send, report);
      break;
    case Granularity::block:
      marking<Granularity::block><<<1, threads, 0, stream>>>(send, report);
      break;
    case Granularity::automatic:
      marking<Granularity::automatic><<<1, threads, 0, stream>>>(send, report);
      break;
  }
  check(cudaGetLastError(), "The launch of the marking kernel");
}

}  // namespace partita::bench::gpu
