// The drop-in's persistent collectives on GPU memory: the MPI's until they are matched, which need not know of GPUs,
// then in the order of a CUDA stream and in its graphs.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <string>

#include "gpu/gpu_buffer.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int count = 1000;

__global__ void write(int* sent, int rank, const int* epoch) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    sent[i] = 1000 * *epoch + 10 * rank + i % 7;
  }
}

__global__ void look(const int* received, int ranks, int* epoch, int* wrong) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int sum = ranks * (1000 * *epoch + i % 7) + 10 * ranks * (ranks - 1) / 2;
    if (received[i] != sum) atomicAdd(wrong, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) ++*epoch;
}

class DropinStreamCollective : public testing::TestWithParam<const char*> {
 protected:
  DropinStreamCollective() { choose_gpu(); }

  MPI_Request make(int* sent, int* received) const {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", GetParam());
    EXPECT_OK(MPI_Allreduce_init(sent, received, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request));
    MPI_Info_free(&info);
    EXPECT_OK(MPIX_Match(&request));
    return request;
  }
};

TEST_P(DropinStreamCollective, runs_between_kernels) {
  const GpuBuffer memory(static_cast<std::int64_t>(sizeof(int)) * (2 * count + 2));
  auto* const sent = reinterpret_cast<int*>(memory.data());
  int *const received = sent + count, *const epoch = received + count, *const wrong = epoch + 1;
  CUDA_OK(cudaMemset(epoch, 0, 2 * sizeof(int)));
  MPI_Request request = make(sent, received);
  const Stream stream;
  cudaStream_t native = stream;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_CUDA, &native));
  const auto run = [&] {
    write<<<1, 256, 0, stream>>>(sent, rank(), epoch);
    EXPECT_OK(MPIX_Enqueue_start(queue, &request));
    EXPECT_OK(MPIX_Enqueue_wait(queue, &request));
    look<<<1, 256, 0, stream>>>(received, ranks(), epoch, wrong);
  };
  int epochs = 20;
  for (int i = 0; i < epochs; ++i) run();
  if (GetParam() == std::string("device")) {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    run();
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t replay = nullptr;
    CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < 20; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
    epochs += 20;
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(replay));
    CUDA_OK(cudaGraphDestroy(graph));
  }
  ASSERT_OK(MPIX_Queue_free(&queue));
  CUDA_OK(cudaStreamSynchronize(stream));
  // And by the host.
  write<<<1, 256, 0, stream>>>(sent, rank(), epoch);
  CUDA_OK(cudaStreamSynchronize(stream));
  ASSERT_OK(MPI_Start(&request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  look<<<1, 256, 0, stream>>>(received, ranks(), epoch, wrong);
  CUDA_OK(cudaStreamSynchronize(stream));
  int found[2] = {};
  CUDA_OK(cudaMemcpy(found, epoch, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT_EQ(found[0], epochs + 1);
  EXPECT_EQ(found[1], 0) << "wrong sums";
  harness_barrier();
  ASSERT_OK(MPI_Request_free(&request));
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(By, DropinStreamCollective, testing::Values("host", "device"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita::test
