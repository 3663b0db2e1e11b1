// GPU memory in tests of a build with CUDA.
#include "support/gpu_memory.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "support/job.hpp"

namespace partita::test {
namespace {

void must(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

/// Threads begin with the first GPU as theirs.
void enter_gpu() {
  must(cudaSetDevice(own_gpu()), "cudaSetDevice");
}

}  // namespace

int own_gpu() {
  static const int count = [] {
    int found = 0;
    must(cudaGetDeviceCount(&found), "cudaGetDeviceCount");
    return found;
  }();
  return rank() % count;
}

std::uint8_t* gpu_allocate(std::size_t size_bytes) {
  enter_gpu();
  void* memory = nullptr;
  must(cudaMalloc(&memory, size_bytes == 0 ? 1 : size_bytes), "cudaMalloc");
  return static_cast<std::uint8_t*>(memory);
}

void gpu_free(void* memory) {
  must(cudaFree(memory), "cudaFree");
}

void gpu_copies(std::span<const GpuCopy> copies) {
  enter_gpu();
  for (const auto& [to, from, size_bytes] : copies) {
    if (size_bytes == 0) continue;
    must(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, cudaStreamPerThread), "cudaMemcpyAsync");
  }
  must(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

}  // namespace partita::test
