#include <cuda_runtime.h>

#include "bench/content_hash.hpp"
#include "bench/gpu/content_kernels.hpp"
#include "bench/gpu/cuda_check.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int block_threads = 256;
constexpr std::uint64_t most_content_blocks = 2048;

unsigned blocks_for(std::uint64_t words) {
  const std::uint64_t blocks = (words + block_threads - 1) / block_threads;
  return static_cast<unsigned>(blocks < most_content_blocks ? blocks : most_content_blocks);
}

/// The 8 bytes of word `index`.
__device__ std::uint64_t content_word(std::uint64_t index, const ContentShape& shape) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t at = 8 * index + i;
    const std::uint64_t byte = content_byte(shape.epoch_hash, at / shape.part_bytes, at % shape.part_bytes);
    word |= byte << (8 * i);
  }
  return word;
}

__device__ std::uint64_t first_index() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t index_step() {
  return std::uint64_t{gridDim.x} * blockDim.x;
}

__global__ void fill_words(std::uint64_t* data, ContentShape shape, std::uint64_t flip) {
  for (std::uint64_t i = first_index(); i < shape.words; i += index_step()) data[i] = content_word(i, shape) ^ flip;
}

__global__ void fill_addend_words(std::uint64_t* a, std::uint64_t* b, ContentShape shape) {
  for (std::uint64_t i = first_index(); i < shape.words; i += index_step()) {
    const std::uint64_t part = mix(i ^ ~shape.epoch_hash);
    a[i] = part;
    b[i] = content_word(i, shape) - part;
  }
}

__global__ void find_words(const std::uint64_t* data, ContentShape shape, unsigned long long* first) {
  for (std::uint64_t i = first_index(); i < shape.words; i += index_step()) {
    if (data[i] != content_word(i, shape)) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

}  // namespace

void launch_fill(std::uint64_t* data, const ContentShape& shape, std::uint64_t flip, cudaStream_t stream) {
  fill_words<<<blocks_for(shape.words), block_threads, 0, stream>>>(data, shape, flip);
  check(cudaGetLastError(), "The launch of the filling kernel");
}

void launch_fill_addends(std::uint64_t* a, std::uint64_t* b, const ContentShape& shape, cudaStream_t stream) {
  fill_addend_words<<<blocks_for(shape.words), block_threads, 0, stream>>>(a, b, shape);
  check(cudaGetLastError(), "The launch of the filling kernel");
}

void launch_find(const std::uint64_t* data, const ContentShape& shape, std::uint64_t* first, cudaStream_t stream) {
  find_words<<<blocks_for(shape.words), block_threads, 0, stream>>>(data, shape,
                                                                    reinterpret_cast<unsigned long long*>(first));
  check(cudaGetLastError(), "The launch of the comparing kernel");
}

}  // namespace partita::bench::gpu
