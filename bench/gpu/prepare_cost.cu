#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/prepare_cost.hpp"

namespace partita::bench::gpu {

namespace {

__global__ void opening(const __grid_constant__ Lanes lanes, int count, KernelReport* report) {
  int code = 0;
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pstart(lanes.recv[i]);
  if (threadIdx.x == 0) *report = {0, 0, code};
}

__global__ void closing(const __grid_constant__ Lanes lanes, int count, KernelReport* report) {
  int code = 0;
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pwait(lanes.recv[i]);
  if (threadIdx.x == 0) *report = {0, 0, code};
}

/// When the calls of `preparing` began, and when the last of them were over, by thread 0. In shared memory: each thread
/// would carry them through every call.
struct Times {
  std::uint64_t begin_ns;
  std::uint64_t started_ns;
  std::uint64_t prepared_ns;
  std::uint64_t marked_ns;
};

__device__ void note(std::uint64_t& time_ns) {
  if (threadIdx.x == 0) time_ns = gpu_now_ns();
}

__global__ void preparing(const __grid_constant__ Lanes lanes, int count, KernelCall timed, KernelReport* report) {
  __shared__ Times times;
  int code = 0;
  note(times.begin_ns);
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pstart(lanes.send[i]);
  note(times.started_ns);
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pbuf_prepare(lanes.send[i]);
  note(times.prepared_ns);
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pready_block(0, lanes.send[i]);
  note(times.marked_ns);
  for (int i = 0; i < count && code == 0; ++i) code = MPIX_Pwait(lanes.send[i]);
  if (threadIdx.x != 0) return;
  const std::uint64_t end_ns = gpu_now_ns();
  const std::uint64_t spent_ns = timed == KernelCall::start     ? times.started_ns - times.begin_ns
                                 : timed == KernelCall::prepare ? times.prepared_ns - times.started_ns
                                                                : end_ns - times.marked_ns;
  *report = {spent_ns, end_ns - times.begin_ns, code};
}

}  // namespace

void launch_opening(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream) {
  opening<<<1, threads, 0, stream>>>(lanes, count, report);
  check(cudaGetLastError(), "The launch of the opening kernel");
}

void launch_closing(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream) {
  closing<<<1, threads, 0, stream>>>(lanes, count, report);
  check(cudaGetLastError(), "The launch of the closing kernel");
}

void launch_preparing(const Lanes& lanes, int count, int threads, KernelCall timed, KernelReport* report,
                      cudaStream_t stream) {
  preparing<<<1, threads, 0, stream>>>(lanes, count, timed, report);
  check(cudaGetLastError(), "The launch of the preparing kernel");
}

}  // namespace partita::bench::gpu
