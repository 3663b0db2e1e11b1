#include <cooperative_groups.h>
#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/memory_copy.hpp"

namespace partita::bench::gpu {

namespace {

/// What the blocks of one launch tell each other; zeroed before.
struct CopyFailures {
  int opening[2];  ///< of even and odd epochs: written before the grid's barrier, read after it, so all blocks end
                   ///< together
  int marking;
};

/// A block's times, which are its thread 0's. In shared memory: with 1,024 threads a block registers are scarce.
struct Watch {
  std::uint64_t whole_begin_ns;
  std::uint64_t begin_ns;  ///< of the part of an epoch that is measured
  std::uint64_t measured_ns;
};

/// Block 0 opens and completes the epochs.
__global__ void __launch_bounds__(1024)
    put_epochs(const __grid_constant__ MPIX_Prequest send, int epochs, KernelReport* report, CopyFailures* failures) {
  __shared__ Watch watch;
  const auto grid = cooperative_groups::this_grid();
  const bool leads = blockIdx.x == 0;
  if (threadIdx.x == 0) watch = {gpu_now_ns(), 0, 0};
  int code = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    volatile int& opening = failures->opening[epoch % 2];
    if (leads) {
      if (code == 0) code = MPIX_Pstart(send);
      if (code == 0) code = MPIX_Pbuf_prepare(send);
      if (code != 0 && threadIdx.x == 0) opening = code;
    }
    grid.sync();
    if (opening != 0) break;

    if (threadIdx.x == 0) watch.begin_ns = gpu_now_ns();
    const int mark_code = MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
    if (mark_code != 0 && threadIdx.x == 0) failures->marking = mark_code;
    if (leads) code = mark_code != 0 ? mark_code : MPIX_Pwait(send);
    if (threadIdx.x == 0) watch.measured_ns += gpu_now_ns() - watch.begin_ns;
  }
  grid.sync();
  if (leads && threadIdx.x == 0) {
    const std::uint64_t whole_ns = gpu_now_ns() - watch.whole_begin_ns;
    *report = {watch.measured_ns, whole_ns, code != 0 ? code : failures->marking};
  }
}

/// The same, by MPIX_Pnext between two epochs; times everything alone. Codes go straight to memory: a thread has no
/// register to spare for one.
__global__ void __launch_bounds__(1024) put_epochs_by_next(const __grid_constant__ MPIX_Prequest send, int epochs,
                                                           KernelReport* report, CopyFailures* failures) {
  __shared__ std::uint64_t begin_ns;
  const auto grid = cooperative_groups::this_grid();
  const bool leads = blockIdx.x == 0;
  const auto tell = [](int* where, int code) {
    if (code != 0 && threadIdx.x == 0) *static_cast<volatile int*>(where) = code;
  };
  if (leads) {
    if (threadIdx.x == 0) begin_ns = gpu_now_ns();
    int code = MPIX_Pstart(send);
    if (code == 0) code = MPIX_Pbuf_prepare(send);
    tell(&failures->opening[0], code);
  }
#pragma unroll 1
  for (int epoch = 0; epoch < epochs; ++epoch) {
    grid.sync();
    if (*static_cast<volatile int*>(&failures->opening[epoch % 2]) != 0) break;
    tell(&failures->marking, MPIX_Pready_block(static_cast<int>(blockIdx.x), send));
    if (leads) tell(&failures->opening[(epoch + 1) % 2], epoch + 1 < epochs ? MPIX_Pnext(send) : MPIX_Pwait(send));
  }
  grid.sync();
  if (leads && threadIdx.x == 0) {
    const std::uint64_t whole_ns = gpu_now_ns() - begin_ns;
    const volatile CopyFailures& found = *failures;
    const int opening = found.opening[0] != 0 ? found.opening[0] : found.opening[1];
    *report = {0, whole_ns, found.marking != 0 ? found.marking : opening};
  }
}

__global__ void receive_epochs(const __grid_constant__ MPIX_Prequest recv, int epochs, KernelReport* report) {
  const std::uint64_t begin_ns = gpu_now_ns();
  int code = 0;
  for (int epoch = 0; epoch < epochs && code == 0; ++epoch) {
    code = MPIX_Pstart(recv);
    if (code == 0) code = MPIX_Pwait(recv);
  }
  if (threadIdx.x == 0) *report = {0, gpu_now_ns() - begin_ns, code};
}

constexpr int receiving_threads = 256;

}  // namespace

bool fits_on_gpu(const GridShape& shape) {
  int device = 0;
  int processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  for (const auto kernel : {put_epochs, put_epochs_by_next}) {
    int blocks_each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, kernel, shape.threads, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (shape.blocks > processors * blocks_each) return false;
  }
  return true;
}

void launch_putting(const MPIX_Prequest& send, const GridShape& shape, Turn turn, int epochs, KernelReport* report,
                    cudaStream_t stream) {
  CopyFailures* failures = nullptr;
  check(cudaMallocAsync(&failures, sizeof(CopyFailures), stream), "cudaMallocAsync");
  check(cudaMemsetAsync(failures, 0, sizeof(CopyFailures), stream), "cudaMemsetAsync");
  MPIX_Prequest request = send;
  void* arguments[] = {&request, &epochs, &report, &failures};
  const auto kernel = turn == Turn::next ? put_epochs_by_next : put_epochs;
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(shape.blocks), dim3(shape.threads),
                                    arguments, 0, stream),
        "The launch of the putting kernel");
  check(cudaFreeAsync(failures, stream), "cudaFreeAsync");
}

void launch_receiving(const MPIX_Prequest& recv, int epochs, KernelReport* report, cudaStream_t stream) {
  receive_epochs<<<1, receiving_threads, 0, stream>>>(recv, epochs, report);
  check(cudaGetLastError(), "The launch of the receiving kernel");
}

}  // namespace partita::bench::gpu
