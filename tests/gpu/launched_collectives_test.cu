// Collectives whose epochs kernels open, launched by a queue of a CUDA stream between kernels that write what is sent
// and look at what came: one by one, and as nodes of a graph that is launched again and again.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>
#include <tuple>

#include "gpu/collective_values.cuh"
#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/kernel_ways.hpp"

namespace partita::test {
namespace {

__global__ void write(const __grid_constant__ Seen seen, const int* epoch) {
  const bool scatters = seen.kind == Kind::reduce_scatter || seen.kind == Kind::alltoall;
  if (seen.kind == Kind::bcast && seen.rank != 0) return;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < seen.count * (scatters ? seen.ranks : 1);
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    seen.sent[i] = value(seen.rank, i / seen.count, *epoch, i % seen.count);
  }
}

__global__ void look(const __grid_constant__ Seen seen, const int* epoch, Verdict* verdict) {
  const bool gathers = seen.kind == Kind::allgather || seen.kind == Kind::alltoall;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < seen.count * (gathers ? seen.ranks : 1);
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    if (seen.received[i] != wanted(seen, i / seen.count, *epoch, i % seen.count)) {
      atomicAdd_system(&verdict->wrong_bytes, 4ULL);
    }
  }
}

__global__ void count_on(int* epoch) {
  ++*epoch;
}

using Way = KernelWay<Kind>;

class LaunchedCollectives : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { choose_gpu(); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_P(LaunchedCollectives, are_nodes_of_a_graph_and_epochs_of_a_stream) {
  const auto [kind, algorithm] = GetParam();
  for (const int count : {1, 1000, 200000}) {
    step(std::string(name_of(kind)) + " in " + algorithm + " of " + std::to_string(count));
    const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count * ranks();
    const GpuBuffer sent(bytes), received(bytes), counter(static_cast<std::int64_t>(sizeof(int)));
    auto* const in = reinterpret_cast<int*>(sent.data());
    auto* const out = kind == Kind::bcast ? in : reinterpret_cast<int*>(received.data());
    auto* const epoch = reinterpret_cast<int*>(counter.data());
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_EQ(init_device_driven(kind, in, out, count, algorithm, &request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Match(&request), MPI_SUCCESS);
    const Seen seen{MPIX_Prequest{}, kind, rank(), ranks(), count, in, out};
    const SharedVerdict verdict;
    const Stream stream;
    cudaStream_t native = stream;
    Partita_Queue queue = PARTITA_QUEUE_NULL;
    ASSERT_EQ(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native), MPI_SUCCESS);
    CUDA_OK(cudaMemsetAsync(epoch, 0, sizeof(int), stream));
    const auto run = [&] {
      write<<<8, 256, 0, stream>>>(seen, epoch);
      EXPECT_EQ(Partita_Enqueue_start(queue, &request), MPI_SUCCESS);
      EXPECT_EQ(Partita_Enqueue_wait(queue, &request), MPI_SUCCESS);
      look<<<8, 256, 0, stream>>>(seen, epoch, verdict.get());
      count_on<<<1, 1, 0, stream>>>(epoch);
    };
    const int rounds = static_cast<int>(environment_number("PARTITEST_ROUNDS", 20));
    for (int i = 0; i < rounds; ++i) run();
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    run();
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t replay = nullptr;
    CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < 5 * rounds; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
    for (int i = 0; i < rounds; ++i) run();
    EXPECT_EQ(Partita_Queue_wait(queue), MPI_SUCCESS);
    CUDA_OK(cudaStreamSynchronize(stream));
    int epochs = 0;
    CUDA_OK(cudaMemcpy(&epochs, epoch, sizeof epochs, cudaMemcpyDeviceToHost));
    EXPECT_EQ(epochs, 7 * rounds);
    verdict.expect_good();
    CUDA_OK(cudaGraphExecDestroy(replay));
    CUDA_OK(cudaGraphDestroy(graph));
    EXPECT_EQ(Partita_Queue_free(&queue), MPI_SUCCESS);
    harness_barrier();
    EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    harness_barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(All, LaunchedCollectives, testing::ValuesIn(kernel_ways(kinds)), name_of_way<Kind>);

}  // namespace
}  // namespace partita::test
