// Two blocks of 1,024 threads share a multiprocessor, but for the kernel that stays there: 32 registers a thread.
#define PARTITA_DEVICE_FEW_REGISTERS
#include <cooperative_groups.h>
#include <partita/device.cuh>

#include <algorithm>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

using Word = unsigned long long;

__device__ std::size_t own_word() {
  return std::size_t{blockIdx.x} * vector_add_threads + threadIdx.x;
}

__global__ void vector_add(const Word* a, const Word* b, Word* c) {
  const std::size_t i = own_word();
  c[i] = a[i] + b[i];
}

__global__ void __launch_bounds__(vector_add_threads, 2)
    vector_add_and_mark(const Word* a, const Word* b, Word* c, const __grid_constant__ MPIX_Prequest send) {
  const std::size_t i = own_word();
  c[i] = a[i] + b[i];
  MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
}

__global__ void __launch_bounds__(vector_add_threads, 2)
    vector_add_in_place(const Word* a, const Word* b, const __grid_constant__ MPIX_Prequest send) {
  __shared__ Word* shared_target;
  const std::size_t i = own_word();
  const Word sum = a[i] + b[i];
  if (threadIdx.x == 0) shared_target = static_cast<Word*>(MPIX_Pbuffer(static_cast<int>(blockIdx.x), send));
  __syncthreads();
  if (shared_target != nullptr) shared_target[threadIdx.x] = sum;
  MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
}

/// What the blocks of one launch tell each other; zeroed before.
struct Failures {
  int opening[2];  ///< of even and odd epochs: written before the grid's barrier, read after it, so all blocks end
                   ///< together
  int marking;
};

/// Block 0 opens and completes the epochs.
__global__ void __launch_bounds__(vector_add_threads, 1)
    vector_add_epochs(const Word* a, const Word* b, Word* c, const __grid_constant__ MPIX_Prequest send, int epochs,
                      KernelReport* report, Failures* failures) {
  const auto grid = cooperative_groups::this_grid();
  const bool leads = blockIdx.x == 0;
  const auto tell = [&](int* where, int code) {
    if (code != 0 && threadIdx.x == 0) *static_cast<volatile int*>(where) = code;
  };
  if (leads) {
    int code = MPIX_Pstart(send);
    if (code == 0) code = MPIX_Pbuf_prepare(send);
    tell(&failures->opening[0], code);
    if (threadIdx.x == 0) report->whole_ns = gpu_now_ns();
  }
  // The last of them is the untimed one.
#pragma unroll 1
  for (int left = epochs; left >= 0; --left) {
    grid.sync();
    if (*static_cast<volatile int*>(&failures->opening[(epochs - left) % 2]) != 0) break;
#pragma unroll 1
    for (int p = static_cast<int>(blockIdx.x); p < send.send_partitions; p += static_cast<int>(gridDim.x)) {
      const std::size_t i = std::size_t{static_cast<unsigned int>(p)} * vector_add_threads + threadIdx.x;
      c[i] = a[i] + b[i] + static_cast<Word>(left);
      tell(&failures->marking, MPIX_Pready_block(p, send));
    }
    if (!leads) continue;
    tell(&failures->opening[(epochs - left + 1) % 2], left > 0 ? MPIX_Pnext(send) : MPIX_Pwait(send));
    if (left == 1 && threadIdx.x == 0) report->measured_ns = gpu_now_ns();
  }
  grid.sync();
  if (leads && threadIdx.x == 0) {
    report->measured_ns -= report->whole_ns;
    report->whole_ns = gpu_now_ns() - report->whole_ns;
    const volatile Failures& found = *failures;
    report->error = found.marking != 0 ? found.marking : found.opening[0] != 0 ? found.opening[0] : found.opening[1];
  }
}

const Word* words(const std::byte* bytes) {
  return reinterpret_cast<const Word*>(bytes);
}

}  // namespace

void launch_vector_add(const Addends& addends, std::byte* c, int blocks, cudaStream_t stream) {
  vector_add<<<blocks, vector_add_threads, 0, stream>>>(words(addends.a), words(addends.b), reinterpret_cast<Word*>(c));
  check(cudaGetLastError(), "The launch of the vector addition");
}

void launch_vector_add_and_mark(const Addends& addends, std::byte* c, int blocks, const MPIX_Prequest& send,
                                cudaStream_t stream) {
  vector_add_and_mark<<<blocks, vector_add_threads, 0, stream>>>(words(addends.a), words(addends.b),
                                                                 reinterpret_cast<Word*>(c), send);
  check(cudaGetLastError(), "The launch of the vector addition");
}

void launch_vector_add_in_place(const Addends& addends, int blocks, const MPIX_Prequest& send, cudaStream_t stream) {
  vector_add_in_place<<<blocks, vector_add_threads, 0, stream>>>(words(addends.a), words(addends.b), send);
  check(cudaGetLastError(), "The launch of the vector addition");
}

void launch_vector_add_epochs(const Addends& addends, std::byte* c, int partitions, const MPIX_Prequest& send,
                              int epochs, KernelReport* report, cudaStream_t stream) {
  int device = 0;
  int processors = 0;
  int blocks_each = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, vector_add_epochs, vector_add_threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int blocks = std::min(partitions, std::max(processors - 1, 1) * blocks_each);
  Failures* failures = nullptr;
  check(cudaMallocAsync(&failures, sizeof(Failures), stream), "cudaMallocAsync");
  check(cudaMemsetAsync(failures, 0, sizeof(Failures), stream), "cudaMemsetAsync");
  const Word* a = words(addends.a);
  const Word* b = words(addends.b);
  auto* sum = reinterpret_cast<Word*>(c);
  MPIX_Prequest request = send;
  void* arguments[] = {&a, &b, &sum, &request, &epochs, &report, &failures};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(vector_add_epochs),
                                    dim3(static_cast<unsigned int>(blocks)), dim3(vector_add_threads), arguments, 0,
                                    stream),
        "The launch of the vector addition");
  check(cudaFreeAsync(failures, stream), "cudaFreeAsync");
}

}  // namespace partita::bench::gpu
