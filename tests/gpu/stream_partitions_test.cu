// Partitioned requests whose epochs kernels open, which a queue's stream opens and awaits by itself between kernels of
// many blocks that mark and look: epoch after epoch, and as nodes of a graph that is launched again and again.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <cstdint>

#include "gpu/gpu_requests.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// What kernels find, and the epoch that they are in; in managed memory.
struct Tally {
  unsigned long long epoch = 1;
  unsigned long long wrong_bytes = 0;
  int failed_calls = 0;
  int first_code = 0;
};

__device__ void note(int code, Tally* tally) {
  if (code != PARTITA_DEVICE_SUCCESS && atomicAdd(&tally->failed_calls, 1) == 0) tally->first_code = code;
}

/// One block.
__global__ void prepare(MPIX_Prequest send, Tally* tally) {
  const int code = MPIX_Pbuf_prepare(send);
  if (threadIdx.x == 0) note(code, tally);
}

/// Block b writes partition b of this epoch, and marks it.
__global__ void write_and_mark(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, Tally* tally) {
  const int p = static_cast<int>(blockIdx.x);
  const std::int64_t begin = p * bytes;
  for (std::int64_t i = begin + threadIdx.x; i < begin + bytes; i += blockDim.x) out[i] = byte_at(tally->epoch, i);
  const int code = MPIX_Pready_block(p, send);
  if (threadIdx.x == 0) note(code, tally);
}

__global__ void compare(const unsigned char* in, std::int64_t bytes, Tally* tally) {
  unsigned long long wrong = 0;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    wrong += in[i] != byte_at(tally->epoch, i);
  }
  if (wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
}

/// What was sent is the program's again behind the wait.
__global__ void overwrite(unsigned char* out, std::int64_t bytes) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) out[i] = 0xA5;
}

__global__ void end_epoch(Tally* tally) {
  ++tally->epoch;
}

struct Shape {
  std::int64_t partition_bytes;
  int partitions;
  std::int64_t total_bytes() const { return partition_bytes * partitions; }
};

/// In packets, and by flags, of which there may be more than a wait has threads.
class StreamPartitions : public RingPair, public testing::WithParamInterface<Shape> {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};
INSTANTIATE_TEST_SUITE_P(All, StreamPartitions,
                         testing::Values(Shape{8, 1}, Shape{64, 16}, Shape{1024, 24}, Shape{12, 3}, Shape{4096, 300},
                                         Shape{1 << 18, 8}));

/// The hosts enqueue ahead, and only wait for the stream.
TEST_P(StreamPartitions, are_epochs_of_a_stream_and_nodes_of_a_graph) {
  if (gpus_are_shared()) GTEST_SKIP() << "kernels of two ranks that share a GPU hold each other up";
  const Shape shape = GetParam();
  GpuBuffer out(shape.total_bytes()), in(shape.total_bytes());
  make(out, in, shape.partitions, "device");
  ASSERT_FALSE(HasFatalFailure());
  const Managed<Tally> tally;
  const Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native));
  std::array both{send_, recv_};
  const auto run = [&] {
    ASSERT_OK(Partita_Enqueue_startall(queue, 2, both.data()));
    prepare<<<1, 32, 0, stream>>>(device_send_, tally.get());
    write_and_mark<<<shape.partitions, 64, 0, stream>>>(device_send_, out.data(), shape.partition_bytes, tally.get());
    ASSERT_OK(Partita_Enqueue_wait(queue, &send_));
    overwrite<<<4, 128, 0, stream>>>(out.data(), out.size_bytes());
    ASSERT_OK(Partita_Enqueue_wait(queue, &recv_));
    compare<<<8, 128, 0, stream>>>(in.data(), in.size_bytes(), tally.get());
    end_epoch<<<1, 1, 0, stream>>>(tally.get());
  };
  constexpr int before = 50, replays = 200, behind = 50;
  for (int i = 0; i < before; ++i) run();
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  run();
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay = nullptr;
  CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < replays; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
  for (int i = 0; i < behind; ++i) run();
  CUDA_OK(cudaStreamSynchronize(stream));  // without a call of the library's
  EXPECT_OK(Partita_Queue_free(&queue));
  EXPECT_EQ(tally->failed_calls, 0) << "first code " << tally->first_code;
  EXPECT_EQ(tally->wrong_bytes, 0u);
  EXPECT_EQ(tally->epoch, 1u + before + replays + behind);
  CUDA_OK(cudaGraphExecDestroy(replay));
  CUDA_OK(cudaGraphDestroy(graph));
  harness_barrier();
  free();
}

/// No other rank holds it up, where ranks share a GPU.
TEST_P(StreamPartitions, of_a_rank_with_itself_go_on_in_two_streams) {
  const Shape shape = GetParam();
  GpuBuffer out(shape.total_bytes()), in(shape.total_bytes());
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  std::array both{PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  auto& [send, recv] = both;
  ASSERT_OK(Partita_Psend_init(out.data(), shape.partitions, shape.partition_bytes, MPI_BYTE, rank(), 9, MPI_COMM_WORLD,
                               info, &send));
  ASSERT_OK(Partita_Precv_init(in.data(), shape.partitions, shape.partition_bytes, MPI_BYTE, rank(), 9, MPI_COMM_WORLD,
                               info, &recv));
  PMPI_Info_free(&info);
  ASSERT_OK(Partita_Matchall(2, both.data()));
  MPIX_Prequest device_send{};
  ASSERT_OK(Partita_Prequest_create(&device_send, send));
  const Managed<Tally> sent, received;
  const Stream sending, receiving;
  std::array<cudaStream_t, 2> native{sending, receiving};
  std::array queues{PARTITA_QUEUE_NULL, PARTITA_QUEUE_NULL};
  for (int i = 0; i < 2; ++i) ASSERT_OK(Partita_Queue_init(&queues[i], PARTITA_QUEUE_CUDA, &native[i]));
  constexpr int epochs = 40;
  for (int i = 0; i < epochs; ++i) {
    ASSERT_OK(Partita_Enqueue_start(queues[1], &recv));
    ASSERT_OK(Partita_Enqueue_wait(queues[1], &recv));
    compare<<<8, 128, 0, receiving>>>(in.data(), in.size_bytes(), received.get());
    end_epoch<<<1, 1, 0, receiving>>>(received.get());
    ASSERT_OK(Partita_Enqueue_start(queues[0], &send));
    prepare<<<1, 32, 0, sending>>>(device_send, sent.get());
    write_and_mark<<<shape.partitions, 64, 0, sending>>>(device_send, out.data(), shape.partition_bytes, sent.get());
    ASSERT_OK(Partita_Enqueue_wait(queues[0], &send));
    overwrite<<<4, 128, 0, sending>>>(out.data(), out.size_bytes());
    end_epoch<<<1, 1, 0, sending>>>(sent.get());
  }
  for (Partita_Queue& each : queues) EXPECT_OK(Partita_Queue_free(&each));
  CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(sent->failed_calls, 0) << "first code " << sent->first_code;
  EXPECT_EQ(received->wrong_bytes, 0u);
  EXPECT_EQ(received->epoch, 1u + epochs);
  EXPECT_OK(Partita_Prequest_free(&device_send));
  for (Partita_Request& each : both) EXPECT_OK(Partita_Request_free(&each));
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
