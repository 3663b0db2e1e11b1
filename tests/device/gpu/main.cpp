// The processes of the GPU tests: 77 with a reason where the machine has fewer GPUs than PARTITEST_GPUS asks for.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  // A kernel that is loaded at its first launch waits for kernels that may be waiting for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  testing::InitGoogleTest(&argc, argv);
  const char* const asked = std::getenv("PARTITEST_GPUS");
  const int wanted = asked == nullptr ? 1 : std::atoi(asked);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count < wanted) {
    const char* const why = status == cudaSuccess ? "fewer" : cudaGetErrorString(status);
    std::printf("skipped: the test needs %d GPUs, the machine shows %d (%s)\n", wanted,
                status == cudaSuccess ? count : 0, why);
    return 77;
  }
  std::printf("GPUs: %d\n", count);
  return RUN_ALL_TESTS();
}
