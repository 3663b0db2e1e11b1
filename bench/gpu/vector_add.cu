// Two blocks of 1,024 threads share a multiprocessor: 32 registers a thread.
#define PARTITA_DEVICE_FEW_REGISTERS
#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
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

}  // namespace partita::bench::gpu
