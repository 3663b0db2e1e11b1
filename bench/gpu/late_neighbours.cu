#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/late_neighbours.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int marking_threads = 256;

/// Thread 0's: whether the host has said so in time.
__device__ bool meet(Meeting* meeting, std::uint64_t limit_ns) {
  auto* const words = static_cast<volatile Meeting*>(meeting);
  words->running = 1;
  const std::uint64_t begin_ns = gpu_now_ns();
  while (words->go == 0) {
    if (gpu_now_ns() - begin_ns > limit_ns) return false;
  }
  return true;
}

__global__ void __launch_bounds__(marking_threads)
    mark_first_and_later_others(const __grid_constant__ MPIX_Prequest send, LateNeighbours marks, Meeting* meeting,
                                KernelReport* report) {
  const bool leads = threadIdx.x == 0;
  if (__syncthreads_or(leads && !meet(meeting, marks.wait_limit_ns)) != 0) {
    if (leads) *report = {0, 0, PARTITA_DEVICE_ERR_TIMEOUT};
    return;
  }
  const std::uint64_t begin_ns = gpu_now_ns();
  int code = MPIX_Pready_block(marks.first, send);
  while (gpu_now_ns() - begin_ns < marks.delay_ns) continue;
  __syncthreads();
  const std::uint64_t others_at_ns = gpu_now_ns();
  for (int p = 0; p < marks.partitions && code == 0; ++p) {
    if (p != marks.first) code = MPIX_Pready_block(p, send);
  }
  if (leads) *report = {others_at_ns - begin_ns, gpu_now_ns() - begin_ns, code};
}

}  // namespace

void launch_late_neighbours(const MPIX_Prequest& send, const LateNeighbours& marks, Meeting* meeting,
                            KernelReport* report, cudaStream_t stream) {
  mark_first_and_later_others<<<1, marking_threads, 0, stream>>>(send, marks, meeting, report);
  check(cudaGetLastError(), "The launch of the kernel whose neighbours are late");
}

}  // namespace partita::bench::gpu
