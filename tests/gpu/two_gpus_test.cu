// A rank that uses two GPUs: buffers on both, whichever of them is current when Partita is called. A ring.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// Block b writes partition b of `round` and marks it.
__global__ void write_and_mark(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, std::uint64_t round,
                               int* failed) {
  const int p = static_cast<int>(blockIdx.x);
  for (std::int64_t i = p * bytes + threadIdx.x; i < (p + 1) * bytes; i += blockDim.x) out[i] = byte_at(round, i);
  if (MPIX_Pready_block(p, send) != 0 && threadIdx.x == 0) atomicAdd(failed, 1);
}

int current_gpu() {
  int gpu = -1;
  EXPECT_EQ(cudaGetDevice(&gpu), cudaSuccess);
  return gpu;
}

/// One request from a GPU of each rank to a GPU of the next one.
struct Flow {
  int from = 0;
  int to = 0;
  std::unique_ptr<GpuBuffer> out;
  std::unique_ptr<GpuBuffer> in;
  std::unique_ptr<Stream> stream;  ///< of GPU `from`
  int* failed = nullptr;           ///< in its memory
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request recv = PARTITA_REQUEST_NULL;
  Partita_Prequest device{};

  std::string text() const { return "from GPU " + std::to_string(from) + " to GPU " + std::to_string(to); }
};

class TwoGpus : public Ring {
 protected:
  static constexpr int partitions = 6;
  static constexpr std::int64_t partition_bytes = 10'007;
  static constexpr std::int64_t total_bytes = partitions * partition_bytes;

  void allocate(Flow& flow) {
    CUDA_OK(cudaSetDevice(flow.to));
    flow.in = std::make_unique<GpuBuffer>(total_bytes);
    CUDA_OK(cudaSetDevice(flow.from));
    flow.out = std::make_unique<GpuBuffer>(total_bytes);
    flow.stream = std::make_unique<Stream>();
    CUDA_OK(cudaMalloc(&flow.failed, sizeof(int)));
    CUDA_OK(cudaMemset(flow.failed, 0, sizeof(int)));
    CUDA_OK(cudaDeviceSynchronize());
  }
  void make(Flow& flow, int tag) {
    ASSERT_EQ(Partita_Psend_init(flow.out->data(), partitions, partition_bytes, MPI_BYTE, next(), tag, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &flow.send),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Precv_init(flow.in->data(), partitions, partition_bytes, MPI_BYTE, previous(), tag,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &flow.recv),
              MPI_SUCCESS);
  }
  void mark(Flow& flow, std::uint64_t round, bool by_kernel) {
    if (by_kernel) {
      CUDA_OK(cudaSetDevice(flow.from));
      write_and_mark<<<partitions, 64, 0, *flow.stream>>>(flow.device, flow.out->data(), partition_bytes, round,
                                                          flow.failed);
      CUDA_OK(cudaGetLastError());
    } else {
      flow.out->fill(round);
      ASSERT_EQ(Partita_Pready_range(0, partitions - 1, flow.send), MPI_SUCCESS);
    }
  }
};

TEST_F(TwoGpus, buffers_on_both_work_whichever_is_current) {
  std::vector<Flow> flows(4);
  for (int i = 0; i < 4; ++i) {
    flows[static_cast<std::size_t>(i)].from = i / 2;
    flows[static_cast<std::size_t>(i)].to = i % 2;
  }
  for (Flow& flow : flows) allocate(flow);
  ASSERT_FALSE(HasFailure());
  for (std::size_t i = 0; i < flows.size(); ++i) {
    CUDA_OK(cudaSetDevice(1 - flows[i].from));
    make(flows[i], static_cast<int>(i));
  }
  for (std::uint64_t round = 1; round <= 8; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const bool by_kernel = round > 4;
    const int current = static_cast<int>(round % 2);
    CUDA_OK(cudaSetDevice(current));
    for (Flow& flow : flows) {
      if (round == 5) ASSERT_EQ(Partita_Prequest_create(&flow.device, flow.send), MPI_SUCCESS) << flow.text();
      ASSERT_EQ(Partita_Start(&flow.recv), MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&flow.send), MPI_SUCCESS);
    }
    for (Flow& flow : flows) mark(flow, round, by_kernel);
    CUDA_OK(cudaSetDevice(current));
    for (Flow& flow : flows) {
      ASSERT_EQ(Partita_Wait(&flow.send, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_EQ(Partita_Wait(&flow.recv, MPI_STATUS_IGNORE), MPI_SUCCESS);
      EXPECT_EQ(current_gpu(), current) << "Partita has changed the program's GPU";
      EXPECT_TRUE(flow.in->holds(round, 0, total_bytes)) << flow.text();
    }
    ASSERT_FALSE(HasFailure());
  }
  for (Flow& flow : flows) {
    CUDA_OK(cudaSetDevice(flow.from));
    CUDA_OK(cudaStreamSynchronize(*flow.stream));
    int failed = -1;
    CUDA_OK(cudaMemcpy(&failed, flow.failed, sizeof failed, cudaMemcpyDeviceToHost));
    EXPECT_EQ(failed, 0) << flow.text();
    CUDA_OK(cudaSetDevice(flow.to));
    ASSERT_EQ(Partita_Prequest_free(&flow.device), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&flow.send), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&flow.recv), MPI_SUCCESS);
    CUDA_OK(cudaFree(flow.failed));
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  harness_barrier();  // requests before buffers, on both sides
}

}  // namespace
}  // namespace partita::test
