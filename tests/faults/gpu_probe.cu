// kernel_probe.hpp on GPUs, one a rank.
#include <cuda_runtime.h>

#include "kernel_probe.hpp"

namespace {

void check_cuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  say("%s fails: %s", call, cudaGetErrorString(result));
  _exit(4);
}
#define CUDA(call) check_cuda(call, #call)

__global__ void __launch_bounds__(128) run(Work work) {
  perform(work);
}

__global__ void square(int* value) {
  *value *= *value;
}

class Cuda {
 public:
  static constexpr auto until_all_wait = std::chrono::seconds(1);

  Cuda() {
    CUDA(cudaHostAlloc(&outcome_, sizeof *outcome_, cudaHostAllocMapped));
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  /// A GPU each, where there are enough.
  static void choose(int rank) {
    int gpus = 0;
    CUDA(cudaGetDeviceCount(&gpus));
    CUDA(cudaSetDevice(rank % gpus));
  }
  unsigned char* allocate(std::size_t size_bytes) {
    unsigned char* memory = nullptr;
    CUDA(cudaMalloc(&memory, size_bytes));
    return memory;
  }
  Outcome* outcome() { return outcome_; }
  void launch(const Work& work) {
    run<<<1, 128, 0, stream_>>>(work);
    CUDA(cudaGetLastError());
  }
  bool ended() {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) check_cuda(state, "the kernel");
    return state == cudaSuccess;
  }
  void synchronize() { CUDA(cudaDeviceSynchronize()); }
  /// CUDA still works in this process.
  int twelve_squared() {
    int* value = nullptr;
    int on_host = 12;
    CUDA(cudaMalloc(&value, sizeof(int)));
    CUDA(cudaMemcpy(value, &on_host, sizeof(int), cudaMemcpyHostToDevice));
    square<<<1, 1>>>(value);
    CUDA(cudaMemcpy(&on_host, value, sizeof(int), cudaMemcpyDeviceToHost));
    return on_host;
  }

 private:
  cudaStream_t stream_ = nullptr;
  Outcome* outcome_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  // A kernel that is loaded at its first launch waits for kernels that may be waiting for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  return run_probe<Cuda>(argc, argv);
}
