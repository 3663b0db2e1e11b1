// What kernels and their hosts do wrong: support/device_mistakes.hpp on GPUs.
#include <cuda_runtime.h>

#include <cstdlib>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "support/device_mistakes.hpp"

namespace partita::test {
namespace {

__global__ void run(Commit commit, int* code) {
  *code = commit();
}

struct Kernels {
  static const bool kernels_copy;

  static std::byte* allocate(std::size_t size_bytes) {
    choose_gpu();
    std::byte* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, size_bytes), cudaSuccess);
    return memory;
  }
  static void free(std::byte* memory) { EXPECT_EQ(cudaFree(memory), cudaSuccess); }
  static int call(const Commit& commit) {
    int* code = nullptr;
    EXPECT_EQ(cudaMallocManaged(&code, sizeof(int)), cudaSuccess);
    run<<<1, 1>>>(commit, code);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the context is corrupted";
    const int result = *code;
    EXPECT_EQ(cudaFree(code), cudaSuccess);
    return result;
  }
};
/// Else the receiver has its bytes once the sender's host looks.
const bool Kernels::kernels_copy =
    std::string(std::getenv("PARTITA_GPU_COPY") ? std::getenv("PARTITA_GPU_COPY") : "") != "engine";
INSTANTIATE_TYPED_TEST_SUITE_P(OnGpus, DeviceMistakes, Kernels);

class NoDeviceRequest : public DeviceMistakes<Kernels> {
 protected:
  void expect_refusal(std::byte* buffer, const std::string& words) {
    Partita_Request send = PARTITA_REQUEST_NULL;
    Partita_Request recv = PARTITA_REQUEST_NULL;
    ASSERT_EQ(Partita_Precv_init(buffer + 64, 1, 64, MPI_BYTE, rank(), 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Psend_init(buffer, 1, 64, MPI_BYTE, rank(), 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send),
              MPI_SUCCESS);
    Partita_Prequest device{};
    expect_error(Partita_Prequest_create(&device, send), MPI_ERR_BUFFER, words);
    expect_error(Partita_Prequest_create(&device, recv), MPI_ERR_BUFFER, words);
    EXPECT_EQ(Partita_Request_free(&send), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&recv), MPI_SUCCESS);
  }
};

TEST_F(NoDeviceRequest, for_host_memory) {
  std::byte buffer[128] = {};
  expect_refusal(buffer, "the buffer of the request is host memory; expected is memory of one GPU");
}

TEST_F(NoDeviceRequest, for_managed_memory) {
  std::byte* buffer = nullptr;
  ASSERT_EQ(cudaMallocManaged(&buffer, 128), cudaSuccess);
  expect_refusal(buffer, "the buffer of the request is managed memory; expected is memory of one GPU");
  EXPECT_EQ(cudaFree(buffer), cudaSuccess);
}

}  // namespace
}  // namespace partita::test
