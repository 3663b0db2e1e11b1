// Messages between GPU memories, which a queue's stream starts, awaits and moves by itself between kernels that write
// what is sent and look at what came: one by one, and as nodes of a graph that is launched again and again.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

__host__ __device__ int value(int rank, int epoch, int i) {
  return rank * 1'000'003 + epoch * 101 + i;
}

__global__ void write(int* sent, int count, int rank, const int* epoch) {
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += static_cast<int>(gridDim.x * blockDim.x)) sent[i] = value(rank, *epoch, i);
}

__global__ void look(const int* received, int count, int rank, const int* epoch, Verdict* verdict) {
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    if (received[i] != value(rank, *epoch, i)) atomicAdd_system(&verdict->wrong_bytes, 4ULL);
  }
}

__global__ void count_on(int* epoch) {
  ++*epoch;
}

class StreamMessages : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { choose_gpu(); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Each rank sends to its right neighbour. In odd epochs the send's wait comes first, in even ones the receive's.
TEST_P(StreamMessages, are_nodes_of_a_graph_and_epochs_of_a_stream) {
  const int count = GetParam();
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count;
  const GpuBuffer sent(bytes), received(bytes), counter(static_cast<std::int64_t>(sizeof(int)));
  auto* const out = reinterpret_cast<int*>(sent.data());
  auto* const in = reinterpret_cast<int*>(received.data());
  auto* const epoch = reinterpret_cast<int*>(counter.data());
  std::array requests = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_EQ(Partita_Recv_init(in, count, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Send_init(out, count, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Matchall(2, requests.data()), MPI_SUCCESS);
  const SharedVerdict verdict;
  const Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_EQ(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native), MPI_SUCCESS);
  CUDA_OK(cudaMemsetAsync(epoch, 0, sizeof(int), stream));
  const auto run = [&](int first) {
    write<<<8, 256, 0, stream>>>(out, count, rank(), epoch);
    EXPECT_EQ(Partita_Enqueue_startall(queue, 2, requests.data()), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queue, &requests[first]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queue, &requests[1 - first]), MPI_SUCCESS);
    look<<<8, 256, 0, stream>>>(in, count, left, epoch, verdict.get());
    count_on<<<1, 1, 0, stream>>>(epoch);
  };
  for (int i = 0; i < 20; ++i) run(i % 2);
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  run(1);
  run(0);
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay = nullptr;
  CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 100; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
  for (int i = 0; i < 20; ++i) run(i % 2);
  EXPECT_EQ(Partita_Queue_wait(queue), MPI_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(stream));
  int epochs = 0;
  CUDA_OK(cudaMemcpy(&epochs, epoch, sizeof epochs, cudaMemcpyDeviceToHost));
  EXPECT_EQ(epochs, 240);
  // The host's epochs go the same way.
  for (int i = 0; i < 20; ++i) {
    write<<<8, 256, 0, stream>>>(out, count, rank(), epoch);
    CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(Partita_Startall(2, requests.data()), MPI_SUCCESS);
    EXPECT_EQ(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
    look<<<8, 256, 0, stream>>>(in, count, left, epoch, verdict.get());
    count_on<<<1, 1, 0, stream>>>(epoch);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  verdict.expect_good();
  CUDA_OK(cudaGraphExecDestroy(replay));
  CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_EQ(Partita_Queue_free(&queue), MPI_SUCCESS);
  harness_barrier();
  for (Partita_Request& each : requests) EXPECT_EQ(Partita_Request_free(&each), MPI_SUCCESS);
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(Sizes, StreamMessages, testing::Values(1, 1000, 16 * 1024, 200'000, 4'000'001));

}  // namespace
}  // namespace partita::test
