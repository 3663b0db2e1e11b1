// Partitioned requests whose epochs kernels open, which a queue's stream opens and awaits by itself between kernels of
// many blocks that mark and look: epoch after epoch, and as nodes of a graph that is launched again and again.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

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

using StreamPartitionsTimeout = StreamPartitions;
INSTANTIATE_TEST_SUITE_P(Some, StreamPartitionsTimeout, testing::Values(Shape{64, 16}, Shape{12, 3}));

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

/// One block, for a kernel of its own: the code of the call.
__global__ void prepare_and_keep(MPIX_Prequest send, int* code) {
  const int found = MPIX_Pbuf_prepare(send);
  if (threadIdx.x == 0) *code = found;
}
__global__ void mark_and_keep(MPIX_Prequest send, int* code) {
  const int found = MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
  if (threadIdx.x == 0) atomicMax(code, found);
}

/// In the entry timeout, with a short limit. The receiver never starts: the kernels of the next epoch neither wait for
/// it nor send their bytes as the one that has failed.
TEST_P(StreamPartitionsTimeout, let_nothing_travel_behind_a_failure) {
  const Shape shape = GetParam();
  GpuBuffer out(shape.total_bytes()), in(shape.total_bytes());
  make(out, in, shape.partitions, "device");
  ASSERT_FALSE(HasFatalFailure());
  CUDA_OK(cudaMemset(in.data(), 0x5A, static_cast<std::size_t>(in.size_bytes())));
  CUDA_OK(cudaMemset(out.data(), 0xA5, static_cast<std::size_t>(out.size_bytes())));
  CUDA_OK(cudaDeviceSynchronize());
  harness_barrier();
  constexpr int epochs = 5;
  struct Codes {
    int prepare[epochs] = {};
    int mark[epochs] = {};
  };
  const Managed<Codes> codes;
  const Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < epochs; ++i) {
    ASSERT_OK(Partita_Enqueue_start(queue, &send_));
    prepare_and_keep<<<1, 32, 0, stream>>>(device_send_, &codes->prepare[i]);
    mark_and_keep<<<shape.partitions, 64, 0, stream>>>(device_send_, &codes->mark[i]);
    ASSERT_OK(Partita_Enqueue_wait(queue, &send_));
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double limit_s = static_cast<double>(environment_number("PARTITA_TIMEOUT", 20));
  EXPECT_GE(took.count(), limit_s);
  EXPECT_LT(took.count(), 3 * limit_s) << "the limit was waited for once more behind the failure";
  EXPECT_ERROR(Partita_Queue_wait(queue), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  EXPECT_OK(Partita_Queue_free(&queue));
  EXPECT_EQ(codes->prepare[0], PARTITA_DEVICE_ERR_TIMEOUT);
  EXPECT_EQ(codes->mark[0], PARTITA_DEVICE_ERR_UNPREPARED);
  for (int i = 1; i < epochs; ++i) {
    EXPECT_EQ(codes->prepare[i], PARTITA_DEVICE_ERR_ABORTED) << "epoch " << i;
    EXPECT_EQ(codes->mark[i], PARTITA_DEVICE_ERR_ABORTED) << "epoch " << i;
  }
  harness_barrier();
  std::vector<unsigned char> received(static_cast<std::size_t>(in.size_bytes()));
  CUDA_OK(cudaMemcpy(received.data(), in.data(), received.size(), cudaMemcpyDefault));
  EXPECT_EQ(std::count(received.begin(), received.end(), 0x5A), in.size_bytes());
  harness_barrier();
  free();
}

/// In the entry timeout. Nobody marks, and one wait ends late behind the other.
TEST_P(StreamPartitionsTimeout, are_a_series_that_queue_wait_sees_to_its_end) {
  const Shape shape = GetParam();
  constexpr int series = 4;
  std::vector<std::unique_ptr<GpuBuffer>> buffers;
  std::array<Partita_Request, 2 * series> requests;
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  for (int i = 0; i < 2 * series; ++i) {
    buffers.push_back(std::make_unique<GpuBuffer>(shape.total_bytes()));
    Partita_Request& request = requests[static_cast<std::size_t>(i)];
    if (i < series) {
      ASSERT_OK(Partita_Precv_init(buffers.back()->data(), shape.partitions, shape.partition_bytes, MPI_BYTE, rank(), i,
                                   MPI_COMM_WORLD, info, &request));
    } else {
      ASSERT_OK(Partita_Psend_init(buffers.back()->data(), shape.partitions, shape.partition_bytes, MPI_BYTE, rank(),
                                   i - series, MPI_COMM_WORLD, info, &request));
    }
  }
  PMPI_Info_free(&info);
  ASSERT_OK(Partita_Matchall(2 * series, requests.data()));
  const Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native));
  for (int i = 0; i < series; ++i) {
    ASSERT_OK(Partita_Enqueue_start(queue, &requests[static_cast<std::size_t>(i)]));
    ASSERT_OK(Partita_Enqueue_wait(queue, &requests[static_cast<std::size_t>(i)]));
  }
  EXPECT_ERROR(Partita_Queue_wait(queue), MPI_ERR_OTHER, "Queue_wait", "a kernel waited longer", "tag 0");
  EXPECT_OK(Partita_Queue_wait(queue));
  EXPECT_OK(Partita_Queue_free(&queue));
  for (Partita_Request& each : requests) EXPECT_OK(Partita_Request_free(&each));
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
