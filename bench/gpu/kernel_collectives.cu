#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/kernel_collectives.hpp"

namespace partita::bench::gpu {

namespace {

template <Collective kind>
__device__ int do_collective(const MPIX_Prequest& prequest) {
  if constexpr (kind == Collective::allreduce) return MPIX_Pallreduce(prequest);
  if constexpr (kind == Collective::allgather) return MPIX_Pallgather(prequest);
  if constexpr (kind == Collective::reduce_scatter) return MPIX_Preduce_scatter(prequest);
  if constexpr (kind == Collective::alltoall) return MPIX_Palltoall(prequest);
  if constexpr (kind == Collective::bcast) return MPIX_Pbcast(prequest);
}

template <Collective kind>
__global__ void __launch_bounds__(most_collective_threads, 1)
    collectives(const __grid_constant__ MPIX_Prequest prequest, int count, KernelReport* report) {
  const std::uint64_t begin_ns = gpu_now_ns();
  std::uint64_t timed_begin_ns = begin_ns;
  int code = 0;
  for (int i = 0; i < count && code == 0; ++i) {
    if (i == untimed_collectives) timed_begin_ns = gpu_now_ns();
    code = do_collective<kind>(prequest);
  }
  const std::uint64_t end_ns = gpu_now_ns();
  if (threadIdx.x != 0) return;
  if (code != 0) report->error = code;
  if (blockIdx.x != 0) return;
  report->measured_ns = end_ns - timed_begin_ns;
  report->whole_ns = end_ns - begin_ns;
}

using Kernel = void (*)(MPIX_Prequest, int, KernelReport*);

Kernel kernel_of(Collective kind) {
  switch (kind) {
    case Collective::allreduce:
      return collectives<Collective::allreduce>;
    case Collective::allgather:
      return collectives<Collective::allgather>;
    case Collective::reduce_scatter:
      return collectives<Collective::reduce_scatter>;
    case Collective::alltoall:
      return collectives<Collective::alltoall>;
    default:
      return collectives<Collective::bcast>;
  }
}

}  // namespace

void launch_collectives(const MPIX_Prequest& prequest, const CollectiveRun& run, KernelReport* report,
                        cudaStream_t stream) {
  MPIX_Prequest argument = prequest;
  int count = run.collectives;
  void* arguments[] = {&argument, &count, &report};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel_of(run.kind)),
                                    dim3(static_cast<unsigned>(run.blocks)), dim3(static_cast<unsigned>(run.threads)),
                                    arguments, 0, stream),
        "The launch of the collectives' kernel");
}

int most_collective_blocks(Collective kind, int threads) {
  int device = 0;
  int multiprocessors = 0;
  int blocks_each = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, reinterpret_cast<const void*>(kernel_of(kind)),
                                                      threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors * blocks_each;
}

}  // namespace partita::bench::gpu
