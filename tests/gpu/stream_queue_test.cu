// Queues of CUDA streams between kernels that write what is sent and read what was received: a whole run is enqueued
// in front of them, and no host waits for the stream until its end.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

struct Findings {
  unsigned long long wrong_bytes = 0;
  int failed_calls = 0;
};

__global__ void produce(unsigned char* out, std::int64_t bytes, std::uint64_t round) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    out[i] = byte_at(round, i);
  }
}

__global__ void consume(const unsigned char* in, std::int64_t bytes, std::uint64_t round, Findings* findings) {
  unsigned long long wrong = 0;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    wrong += in[i] != byte_at(round, i);
  }
  if (wrong != 0) atomicAdd(&findings->wrong_bytes, wrong);
}

/// What came is sent on, but for the last bit of each byte.
__global__ void pass_on(const unsigned char* in, unsigned char* out, std::int64_t bytes) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    out[i] = in[i] ^ 1;
  }
}

/// Block b writes partition b of this round, and marks it.
__global__ void write_and_mark(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, std::uint64_t round,
                               Findings* findings) {
  const int p = static_cast<int>(blockIdx.x);
  for (std::int64_t i = p * bytes + threadIdx.x; i < (p + 1) * bytes; i += blockDim.x) out[i] = byte_at(round, i);
  if (MPIX_Pready_block(p, send) != PARTITA_DEVICE_SUCCESS && threadIdx.x == 0) atomicAdd(&findings->failed_calls, 1);
}

/// A queue on `stream`, which may be one of CUDA's special handles.
class StreamQueue {
 public:
  explicit StreamQueue(cudaStream_t stream) : stream_(stream) {
    EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, &stream_));
  }
  ~StreamQueue() { EXPECT_OK(Partita_Queue_free(&queue_)); }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void start(std::vector<Partita_Request> requests) const {
    EXPECT_OK(Partita_Enqueue_startall(queue_, static_cast<int>(requests.size()), requests.data()));
  }
  void wait(std::vector<Partita_Request> requests) const {
    EXPECT_OK(Partita_Enqueue_waitall(queue_, static_cast<int>(requests.size()), requests.data()));
  }
  void finish() const { EXPECT_OK(Partita_Queue_wait(queue_)); }

 private:
  cudaStream_t stream_;
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

/// Each rank sends to the next one.
class StreamQueues : public Ring {
 protected:
  void make_messages(const AnyBuffer& out, const AnyBuffer& in, int tag) {
    const auto bytes = static_cast<MPI_Count>(out.size_bytes());
    ASSERT_OK(Partita_Recv_init(in.data(), bytes, MPI_BYTE, previous(), tag, MPI_COMM_WORLD, &recv_));
    ASSERT_OK(Partita_Send_init(out.data(), bytes, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &send_));
    match();
  }
  void make_partitioned(const AnyBuffer& out, const AnyBuffer& in, int partitions, int tag) {
    const auto bytes = static_cast<MPI_Count>(out.size_bytes()) / partitions;
    ASSERT_OK(Partita_Precv_init(in.data(), partitions, bytes, MPI_BYTE, previous(), tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &recv_));
    ASSERT_OK(Partita_Psend_init(out.data(), partitions, bytes, MPI_BYTE, next(), tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &send_));
    match();
  }
  void free_both() {
    ASSERT_OK(Partita_Request_free(&recv_));
    ASSERT_OK(Partita_Request_free(&send_));
    harness_barrier();  // requests before buffers, on both sides
  }
  void expect_nothing_wrong() const {
    EXPECT_EQ(findings_->wrong_bytes, 0u);
    EXPECT_EQ(findings_->failed_calls, 0);
  }
  static std::uint64_t number(int round, int from) { return static_cast<std::uint64_t>(round) * 64 + from; }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
  Managed<Findings> findings_;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
  Partita_Request send_ = PARTITA_REQUEST_NULL;

 private:
  void match() {
    std::array both = {recv_, send_};
    ASSERT_OK(Partita_Matchall(2, both.data()));
  }
};

TEST_F(StreamQueues, a_ring_of_kernels_exchanges_epoch_after_epoch) {
  for (const std::int64_t bytes : {1, 4096, 100'003, 4 << 20}) {
    step(std::to_string(bytes) + " bytes");
    SCOPED_TRACE(std::to_string(bytes) + " bytes");
    const GpuBuffer out(bytes), in(bytes);
    make_messages(out, in, 1);
    ASSERT_FALSE(HasFatalFailure());
    const Stream stream;
    const StreamQueue queue(stream);
    const int rounds = bytes > 1'000'000 ? 30 : 150;
    for (int round = 0; round < rounds; ++round) {
      produce<<<8, 256, 0, stream>>>(out.data(), bytes, number(round, rank()));
      queue.start({recv_, send_});
      queue.wait({recv_, send_});
      consume<<<8, 256, 0, stream>>>(in.data(), bytes, number(round, previous()), findings_.get());
    }
    queue.finish();
    CUDA_OK(cudaStreamSynchronize(stream));
    expect_nothing_wrong();
    free_both();
  }
}

/// What a rank sends is made of what has come: a bit of each byte is turned at every rank.
TEST_F(StreamQueues, what_comes_goes_around_the_ring) {
  for (const std::int64_t bytes : {8, 65'536}) {
    const GpuBuffer out(bytes), in(bytes);
    make_messages(out, in, 2);
    ASSERT_FALSE(HasFatalFailure());
    const Stream stream;
    const StreamQueue queue(stream);
    const int rounds = 40;
    if (rank() == 0) produce<<<8, 256, 0, stream>>>(out.data(), bytes, 7);
    for (int round = 0; round < rounds; ++round) {
      queue.start({recv_});
      if (rank() == 0) queue.start({send_});
      queue.wait({recv_});
      if (rank() == 0) queue.wait({send_});
      pass_on<<<8, 256, 0, stream>>>(in.data(), out.data(), bytes);
      if (rank() == 0) continue;
      queue.start({send_});
      queue.wait({send_});
    }
    queue.finish();
    CUDA_OK(cudaStreamSynchronize(stream));
    if (rank() == 0) {
      // Every turn is one of `ranks` flips, and the receive of rank 0 comes before its own.
      const unsigned flips = static_cast<unsigned>(rounds * ranks() - 1);
      std::vector<unsigned char> found(static_cast<std::size_t>(bytes));
      CUDA_OK(cudaMemcpy(found.data(), in.data(), found.size(), cudaMemcpyDeviceToHost));
      for (std::int64_t i = 0; i < bytes; ++i) ASSERT_EQ(found[i], byte_at(7, i) ^ (flips % 2)) << i;
    }
    free_both();
  }
}

/// Behind the start of a request that kernels use the stream waits for the host, so that they may mark.
TEST_F(StreamQueues, kernels_mark_partitions_of_what_is_enqueued) {
  for (const std::int64_t partition_bytes : {8, 10'000}) {
    constexpr int partitions = 16;
    const std::int64_t bytes = partitions * partition_bytes;
    const GpuBuffer out(bytes), in(bytes);
    make_partitioned(out, in, partitions, 3);
    ASSERT_FALSE(HasFatalFailure());
    Partita_Prequest device_send{};
    ASSERT_OK(Partita_Prequest_create(&device_send, send_));
    const Stream stream;
    const StreamQueue queue(stream);
    for (int round = 0; round < 100; ++round) {
      queue.start({recv_, send_});
      write_and_mark<<<partitions, 128, 0, stream>>>(device_send, out.data(), partition_bytes, number(round, rank()),
                                                     findings_.get());
      queue.wait({recv_, send_});
      consume<<<8, 256, 0, stream>>>(in.data(), bytes, number(round, previous()), findings_.get());
    }
    queue.finish();
    CUDA_OK(cudaStreamSynchronize(stream));
    expect_nothing_wrong();
    ASSERT_OK(Partita_Prequest_free(&device_send));
    free_both();
  }
}

/// A host that marks behind the enqueued start need not wait until the stream has come to that.
TEST_F(StreamQueues, hosts_mark_ahead_of_the_stream) {
  constexpr std::int64_t bytes = 4 * 5000;
  const GpuBuffer out(bytes), in(bytes);
  make_partitioned(out, in, 4, 4);
  ASSERT_FALSE(HasFatalFailure());
  const Stream stream;
  const StreamQueue queue(stream);
  for (int round = 0; round < 50; ++round) {
    produce<<<8, 256, 0, stream>>>(out.data(), bytes, number(round, rank()));
    queue.start({recv_, send_});
    ASSERT_OK(Partita_Pready_range(0, 3, send_));
    queue.wait({recv_, send_});
    consume<<<8, 256, 0, stream>>>(in.data(), bytes, number(round, previous()), findings_.get());
  }
  queue.finish();
  CUDA_OK(cudaStreamSynchronize(stream));
  expect_nothing_wrong();
  free_both();
}

TEST_F(StreamQueues, several_streams_and_the_special_ones_have_queues_of_their_own) {
  constexpr std::int64_t bytes = 20'000;
  const Stream own;
  const std::vector<cudaStream_t> streams = {own, cudaStreamPerThread, cudaStreamLegacy, nullptr};
  struct Lane {
    explicit Lane(cudaStream_t on) : stream(on), queue(on) {}
    cudaStream_t stream;
    StreamQueue queue;
    GpuBuffer out{bytes}, in{bytes};
    Partita_Request recv = PARTITA_REQUEST_NULL, send = PARTITA_REQUEST_NULL;
  };
  std::vector<std::unique_ptr<Lane>> lanes;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Lane& lane = *lanes.emplace_back(std::make_unique<Lane>(streams[i]));
    make_messages(lane.out, lane.in, 10 + static_cast<int>(i));
    ASSERT_FALSE(HasFatalFailure());
    lane.recv = recv_;
    lane.send = send_;
  }
  for (int round = 0; round < 20; ++round) {
    for (const auto& lane : lanes) {
      produce<<<4, 128, 0, lane->stream>>>(lane->out.data(), bytes, number(round, rank()));
      lane->queue.start({lane->recv, lane->send});
      lane->queue.wait({lane->send, lane->recv});
      consume<<<4, 128, 0, lane->stream>>>(lane->in.data(), bytes, number(round, previous()), findings_.get());
    }
  }
  for (const auto& lane : lanes) lane->queue.finish();
  CUDA_OK(cudaDeviceSynchronize());
  expect_nothing_wrong();
  for (const auto& lane : lanes) {
    ASSERT_OK(Partita_Request_free(&lane->recv));
    ASSERT_OK(Partita_Request_free(&lane->send));
  }
  harness_barrier();
}

/// The peer has freed its end: the stream goes on, and the error comes out of the wait for the queue.
TEST_F(StreamQueues, an_error_lets_the_stream_go) {
  const GpuBuffer out(64), in(64);
  make_messages(out, in, 5);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_OK(Partita_Request_free(&send_));
  Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native));
  ASSERT_OK(Partita_Enqueue_start(queue, &recv_));
  ASSERT_OK(Partita_Enqueue_wait(queue, &recv_));
  produce<<<1, 64, 0, stream>>>(out.data(), 64, 3);
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(out.holds(3, 0, 64));
  EXPECT_ERROR(Partita_Queue_wait(queue), MPI_ERR_REQUEST, "Queue_wait", "freed its request");
  EXPECT_OK(Partita_Queue_free(&queue));
  ASSERT_OK(Partita_Request_free(&recv_));
}

/// Messages in host memory are the engine's, and no graph can ask that.
TEST_F(StreamQueues, a_stream_that_is_captured_is_refused) {
  const AnyBuffer out(64, Placement::host), in(64, Placement::host);
  make_messages(out, in, 6);
  ASSERT_FALSE(HasFatalFailure());
  Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_ERROR(Partita_Enqueue_start(queue, &recv_), MPI_ERR_ARG, "captured");
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_OK(Partita_Queue_free(&queue));
  free_both();
}

}  // namespace
}  // namespace partita::test
