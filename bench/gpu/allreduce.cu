#include "bench/gpu/allreduce.hpp"

// Two blocks of 1,024 threads that add and mark share a multiprocessor: 32 registers a thread.
#define PARTITA_DEVICE_FEW_REGISTERS
#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

/// Threads a block of the kernel that does the allreduce, too: it needs more registers than an addition.
constexpr int allreduce_threads = 512;

__device__ std::int64_t own_element() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__global__ void __launch_bounds__(vector_add_threads) add(const __grid_constant__ Sum sum) {
  const std::int64_t i = own_element();
  sum.c[i] = sum.a[i] + sum.b[i];
}

__global__ void __launch_bounds__(vector_add_threads, 2)
    add_and_mark(const __grid_constant__ Sum sum, const __grid_constant__ MPIX_Prequest allreduce) {
  const std::int64_t i = own_element();
  sum.c[i] = sum.a[i] + sum.b[i];
  MPIX_Pready_block(static_cast<int>(blockIdx.x), allreduce);
}

__global__ void __launch_bounds__(allreduce_threads, 1)
    add_and_allreduce(const __grid_constant__ Sum sum, const __grid_constant__ MPIX_Prequest allreduce,
                      KernelReport* report) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = own_element(); i < sum.count; i += threads) sum.c[i] = sum.a[i] + sum.b[i];
  const int code = MPIX_Pallreduce(allreduce);
  if (code != 0 && threadIdx.x == 0) report->error = code;
}

enum class InNode { reduce_scatter, allreduce };

template <InNode way>
__device__ int sum_in_node(const MPIX_Prequest& within) {
  if constexpr (way == InNode::reduce_scatter) return MPIX_Preduce_scatter(within);
  if constexpr (way == InNode::allreduce) return MPIX_Pallreduce(within);
}

/// The collective ends with a barrier of the grid: any block may mark what others have stored.
template <InNode way>
__global__ void __launch_bounds__(allreduce_threads, 1)
    add_and_sum_in_node(const __grid_constant__ Sum sum, const __grid_constant__ MPIX_Prequest within,
                        const __grid_constant__ MPIX_Prequest across, int partitions, KernelReport* report) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = own_element(); i < sum.count; i += threads) sum.c[i] = sum.a[i] + sum.b[i];
  int code = sum_in_node<way>(within);
  for (int p = static_cast<int>(blockIdx.x); p < partitions && code == 0; p += static_cast<int>(gridDim.x)) {
    code = MPIX_Pready_block(p, across);
  }
  if (code != 0 && threadIdx.x == 0) report->error = code;
}

__global__ void __launch_bounds__(allreduce_threads, 1)
    allgather(const __grid_constant__ MPIX_Prequest gather, KernelReport* report) {
  const int code = MPIX_Pallgather(gather);
  if (code != 0 && threadIdx.x == 0) report->error = code;
}

/// A grid that waits for itself.
template <class Kernel>
void launch_at_once(Kernel kernel, int blocks, void** arguments, cudaStream_t stream, const char* what) {
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                    dim3(allreduce_threads), arguments, 0, stream),
        what);
}

template <InNode way>
void launch_two_level(Sum sum, MPIX_Prequest within, MPIX_Prequest across, int partitions, int blocks,
                      KernelReport* report, cudaStream_t stream) {
  void* arguments[] = {&sum, &within, &across, &partitions, &report};
  launch_at_once(add_and_sum_in_node<way>, blocks, arguments, stream, "The launch of the vector addition");
}

unsigned blocks_of(const Sum& sum) {
  return static_cast<unsigned>(sum.count / vector_add_threads);
}

}  // namespace

void launch_add(const Sum& sum, cudaStream_t stream) {
  add<<<blocks_of(sum), vector_add_threads, 0, stream>>>(sum);
  check(cudaGetLastError(), "The launch of the vector addition");
}

void launch_add_and_mark(const Sum& sum, const MPIX_Prequest& allreduce, cudaStream_t stream) {
  add_and_mark<<<blocks_of(sum), vector_add_threads, 0, stream>>>(sum, allreduce);
  check(cudaGetLastError(), "The launch of the vector addition");
}

void launch_add_and_allreduce(const Sum& sum, const MPIX_Prequest& allreduce, int blocks, KernelReport* report,
                              cudaStream_t stream) {
  Sum sum_argument = sum;
  MPIX_Prequest request = allreduce;
  void* arguments[] = {&sum_argument, &request, &report};
  launch_at_once(add_and_allreduce, blocks, arguments, stream, "The launch of the vector addition");
}

void launch_add_and_scatter(const Sum& sum, const MPIX_Prequest& scatter, const MPIX_Prequest& across, int partitions,
                            int blocks, KernelReport* report, cudaStream_t stream) {
  launch_two_level<InNode::reduce_scatter>(sum, scatter, across, partitions, blocks, report, stream);
}

void launch_add_and_sum_in_node(const Sum& sum, const MPIX_Prequest& within, const MPIX_Prequest& across,
                                int partitions, int blocks, KernelReport* report, cudaStream_t stream) {
  launch_two_level<InNode::allreduce>(sum, within, across, partitions, blocks, report, stream);
}

void launch_gather(const MPIX_Prequest& gather, int blocks, KernelReport* report, cudaStream_t stream) {
  MPIX_Prequest request = gather;
  void* arguments[] = {&request, &report};
  launch_at_once(allgather, blocks, arguments, stream, "The launch of the allgather");
}

int most_allreduce_blocks() {
  int device = 0;
  int multiprocessors = 0;
  int blocks_each = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, add_and_allreduce, allreduce_threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors * blocks_each;
}

}  // namespace partita::bench::gpu
