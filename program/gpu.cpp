#include "program/gpu.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace partita::program {
namespace {

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(code));
}

}  // namespace

GpuUse choose_gpu(int rank_on_node) {
  int devices = 0;
  int pools = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return {};
  const int device = rank_on_node % devices;
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device), "cudaDeviceGetAttribute");
  return {true, pools != 0};
}

void* allocate_on_gpu(std::size_t size_bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, size_bytes), "cudaMalloc");
  return memory;
}

void free_on_gpu(void* memory) {
  cudaFree(memory);
}

void* allocate_in_pool(std::size_t size_bytes) {
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, size_bytes, nullptr), "cudaMallocAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return memory;
}

void free_in_pool(void* memory) {
  cudaFreeAsync(memory, nullptr);
}

}  // namespace partita::program
