// Calls in kernels on device requests that nothing is behind: none of them ends the context. And arrays of requests, in
// GPU memory and as a kernel's parameter, some of them to MPI_PROC_NULL.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/device/peer.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstring>
#include <memory>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"
#include "support/unmade_calls.hpp"

namespace partita::test {
namespace {

constexpr int blocks = 4;

/// How many threads got another code than `wanted`.
__global__ void make_all_calls(MPIX_Prequest prequest, int wanted, bool nobody, int* wrong) {
  for (int call = 0; call < device_calls; ++call) {
    if (code_of(static_cast<DeviceCall>(call), static_cast<int>(blockIdx.x), prequest, nobody) != wanted) {
      atomicAdd(wrong, 1);
    }
    __syncthreads();
  }
}

__global__ void make_all_collectives(MPIX_Prequest prequest, int wanted, int* wrong) {
  for (int call = 0; call < device_collectives; ++call) {
    if (code_of(static_cast<DeviceCollective>(call), prequest) != wanted) atomicAdd(wrong, 1);
    __syncthreads();
  }
}

void expect_all_calls(const MPIX_Prequest& prequest, int wanted, bool nobody) {
  int* wrong = nullptr;
  CUDA_OK(cudaMallocManaged(&wrong, sizeof *wrong));
  *wrong = 0;
  for (const int threads : {1, 33, 256}) {
    make_all_calls<<<blocks, threads>>>(prequest, wanted, nobody, wrong);
    make_all_collectives<<<blocks, threads>>>(prequest, wanted, wrong);
    CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(*wrong, 0) << threads << " threads";
  }
  CUDA_OK(cudaFree(wrong));
}

TEST(UnmadeRequests, cleared_and_never_made_ones_are_freed_for_every_call) {
  choose_gpu();
  expect_all_calls(MPIX_Prequest{}, PARTITA_DEVICE_ERR_FREED, false);
  MPIX_Prequest garbage;
  std::memset(&garbage, 0xcd, sizeof garbage);
  expect_all_calls(garbage, PARTITA_DEVICE_ERR_FREED, false);
}

class RequestsOfNobody : public testing::TestWithParam<const char*> {};

TEST_P(RequestsOfNobody, are_made_do_nothing_in_kernels_and_are_freed) {
  choose_gpu();
  GpuBuffer buffer(blocks * 64);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "host");
  const bool sends = std::string(GetParam()) == "send";
  Partita_Request request = PARTITA_REQUEST_NULL;
  const auto init =
      sends ? Partita_Psend_init(buffer.data(), blocks, 64, MPI_BYTE, MPI_PROC_NULL, 3, MPI_COMM_WORLD, info, &request)
            : Partita_Precv_init(buffer.data(), blocks, 64, MPI_BYTE, MPI_PROC_NULL, 3, MPI_COMM_WORLD, info, &request);
  PMPI_Info_free(&info);
  ASSERT_EQ(init, MPI_SUCCESS);
  MPIX_Prequest prequest;
  ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
  ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
  expect_all_calls(prequest, PARTITA_DEVICE_SUCCESS, true);
  ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  ASSERT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
  expect_all_calls(prequest, PARTITA_DEVICE_ERR_FREED, false);  // cleared by the free
  ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
}
INSTANTIATE_TEST_SUITE_P(Sides, RequestsOfNobody, testing::Values("send", "recv"),
                         [](const auto& info) { return std::string(info.param); });

// ---- Arrays --------------------------------------------------------------------------------------------------------

constexpr int neighbours = 4;
constexpr int partitions = 8;
constexpr std::int64_t partition_bytes = 256;
constexpr std::int64_t total_bytes = partitions * partition_bytes;

struct Faces {
  MPIX_Prequest sends[neighbours];
  unsigned char* buffers[neighbours];
};

__device__ void write_partition(unsigned char* buffer, int p, std::uint64_t key) {
  for (std::int64_t i = p * partition_bytes + threadIdx.x; i < (p + 1) * partition_bytes; i += blockDim.x) {
    buffer[i] = byte_at(key, i);
  }
}

/// Block (p, i) marks partition p towards neighbour i.
__global__ void mark_array(const MPIX_Prequest* sends, unsigned char* const* buffers, std::uint64_t key, int* failed) {
  const int p = static_cast<int>(blockIdx.x);
  const int i = static_cast<int>(blockIdx.y);
  write_partition(buffers[i], p, key + i);
  if (MPIX_Pready_block(p, sends[i]) != PARTITA_DEVICE_SUCCESS) atomicAdd(failed, 1);
}

__global__ void mark_parameter(const __grid_constant__ Faces faces, std::uint64_t key, int* failed) {
  const int p = static_cast<int>(blockIdx.x);
  const int i = static_cast<int>(blockIdx.y);
  write_partition(faces.buffers[i], p, key + i);
  if (MPIX_Pready_block(p, faces.sends[i]) != PARTITA_DEVICE_SUCCESS) atomicAdd(failed, 1);
}

/// A line of ranks: each sends twice to its right and twice to its left neighbour, which at an end of the line are
/// nobody.
TEST(ArraysOfRequests, in_memory_and_as_a_parameter_serve_all_neighbours_from_one_kernel) {
  choose_gpu();
  std::vector<std::unique_ptr<GpuBuffer>> out;
  std::vector<std::unique_ptr<GpuBuffer>> in;
  Partita_Request sends[neighbours];
  Partita_Request recvs[neighbours];
  int from[neighbours];
  Faces faces{};
  for (int i = 0; i < neighbours; ++i) {
    out.push_back(std::make_unique<GpuBuffer>(total_bytes));
    in.push_back(std::make_unique<GpuBuffer>(total_bytes));
    const auto there = [](int peer) { return peer >= 0 && peer < ranks() ? peer : MPI_PROC_NULL; };
    const int to = there(i < 2 ? rank() + 1 : rank() - 1);
    from[i] = there(i < 2 ? rank() - 1 : rank() + 1);
    ASSERT_EQ(Partita_Psend_init(out.back()->data(), partitions, partition_bytes, MPI_BYTE, to, i, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &sends[i]),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Precv_init(in.back()->data(), partitions, partition_bytes, MPI_BYTE, from[i], i, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &recvs[i]),
              MPI_SUCCESS);
    faces.buffers[i] = out.back()->data();
  }
  for (int i = 0; i < neighbours; ++i) ASSERT_EQ(Partita_Prequest_create(&faces.sends[i], sends[i]), MPI_SUCCESS);
  Faces* on_gpu = nullptr;
  int* failed = nullptr;
  CUDA_OK(cudaMalloc(&on_gpu, sizeof faces));
  CUDA_OK(cudaMemcpy(on_gpu, &faces, sizeof faces, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMallocManaged(&failed, sizeof *failed));
  *failed = 0;

  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::uint64_t key = round * 100;
    ASSERT_EQ(Partita_Startall(neighbours, recvs), MPI_SUCCESS);
    ASSERT_EQ(Partita_Startall(neighbours, sends), MPI_SUCCESS);
    if (round % 2 == 0) {
      mark_array<<<dim3(partitions, neighbours), 64>>>(on_gpu->sends, on_gpu->buffers, key, failed);
    } else {
      mark_parameter<<<dim3(partitions, neighbours), 64>>>(faces, key, failed);
    }
    CUDA_OK(cudaGetLastError());
    ASSERT_EQ(Partita_Waitall(neighbours, sends, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(Partita_Waitall(neighbours, recvs, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    CUDA_OK(cudaDeviceSynchronize());
    ASSERT_EQ(*failed, 0);
    for (int i = 0; i < neighbours; ++i) {
      if (from[i] != MPI_PROC_NULL) {
        EXPECT_TRUE(in[static_cast<std::size_t>(i)]->holds(key + static_cast<std::uint64_t>(i), 0, total_bytes));
      }
    }
  }
  CUDA_OK(cudaFree(failed));
  CUDA_OK(cudaFree(on_gpu));
  for (int i = 0; i < neighbours; ++i) {
    EXPECT_EQ(Partita_Prequest_free(&faces.sends[i]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&sends[i]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&recvs[i]), MPI_SUCCESS);
  }
}

/// What the table names is what the request's own fields name.
__global__ void read_peers(MPIX_Prequest send, int* wrong) {
  const bool same = send.state->peers == 1 && send.peers[0].buffer == send.remote &&
                    send.peers[0].device_words == send.arrival_device && send.peers[0].host_words == send.arrival_host;
  if (!same) *wrong = 1;
}

using Peers = RingPair;
TEST_F(Peers, lie_in_the_memory_of_the_requests_gpu) {
  const GpuBuffer out(4096);
  const GpuBuffer in(4096);
  make(out, in, 4, "host");
  if (kernels_reach(rank(), next())) {
    int* wrong = nullptr;
    CUDA_OK(cudaMallocManaged(&wrong, sizeof *wrong));
    *wrong = 0;
    read_peers<<<1, 1>>>(device_send_, wrong);
    CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(*wrong, 0);
    CUDA_OK(cudaFree(wrong));
  }
  free();
}

}  // namespace
}  // namespace partita::test
