// Messages between GPU memories, which a queue's stream starts, awaits and moves by itself between kernels that write
// what is sent and look at what came: one by one, and as nodes of a graph that is launched again and again.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

__host__ __device__ int value(int rank, int epoch, int i) {
  return rank * 1'000'003 + epoch * 101 + i;
}

/// Numbers that lie `step` apart, as in the next one.
__global__ void write(int* sent, int count, int step, int rank, const int* epoch) {
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    sent[static_cast<std::int64_t>(i) * step] = value(rank, *epoch, i);
  }
}

/// What lies in the gaps has stayed zero.
__global__ void look(const int* received, int count, int step, int rank, const int* epoch, Verdict* verdict) {
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    for (int gap = 0; gap < step; ++gap) {
      const int expected = gap == 0 ? value(rank, *epoch, i) : 0;
      if (received[static_cast<std::int64_t>(i) * step + gap] != expected)
        atomicAdd_system(&verdict->wrong_bytes, 4ULL);
    }
  }
}

__global__ void count_on(int* epoch) {
  ++*epoch;
}

/// One block asks for the ends of both messages in turn, and moves them where it is to, looks at what came, and writes
/// over what was sent.
__global__ void ask_for_both(MPIX_Completion receive, MPIX_Completion send, const int* received, int* sent, int count,
                             int rank, const int* epoch, Verdict* verdict) {
  int code = PARTITA_DEVICE_SUCCESS;
  for (int has_come = 0, has_gone = 0; code == PARTITA_DEVICE_SUCCESS && has_come + has_gone < 2;) {
    code = MPIX_Completed_block(receive, &has_come);
    if (code == PARTITA_DEVICE_SUCCESS) code = MPIX_Completed_block(send, &has_gone);
  }
  if (code != PARTITA_DEVICE_SUCCESS && threadIdx.x == 0) atomicAdd_system(&verdict->wrong_bytes, 1ULL);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    if (received[i] != value(rank, *epoch, i)) atomicAdd_system(&verdict->wrong_bytes, 4ULL);
    sent[i] = -2;
  }
}

/// Every thread of several blocks looks for itself.
__global__ void look_for_itself(MPIX_Completion receive, const int* received, int count, int rank, const int* epoch,
                                Verdict* verdict) {
  int code = PARTITA_DEVICE_SUCCESS;
  for (int flag = 0; code == PARTITA_DEVICE_SUCCESS && flag == 0;) code = MPIX_Completed(receive, &flag);
  const bool is_there = code == PARTITA_DEVICE_SUCCESS;
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    if (!is_there || received[i] != value(rank, *epoch, i)) atomicAdd_system(&verdict->wrong_bytes, 4ULL);
  }
}

/// An int, and so much room that `step` of them fit.
class Spaced {
 public:
  explicit Spaced(int step) {
    MPI_Type_create_resized(MPI_INT, 0, static_cast<MPI_Aint>(sizeof(int)) * step, &type_);
    MPI_Type_commit(&type_);
  }
  ~Spaced() { MPI_Type_free(&type_); }
  Spaced(const Spaced&) = delete;
  Spaced& operator=(const Spaced&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

struct Case {
  int count;
  int step_out = 1;  ///< 1: the datatype has no gaps
  int step_in = 1;
  int epochs_of_graph = 2;
  int launches = 100;
};

class StreamMessages : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { choose_gpu(); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};
using KernelsThatAsk = StreamMessages;

/// Each rank sends to its right neighbour. In odd epochs the send's wait comes first, in even ones the receive's.
TEST_P(StreamMessages, are_nodes_of_a_graph_and_epochs_of_a_stream) {
  const int count = GetParam().count, step_out = GetParam().step_out, step_in = GetParam().step_in;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count;
  const GpuBuffer sent(bytes * step_out), received(bytes * step_in), counter(static_cast<std::int64_t>(sizeof(int)));
  const Spaced type_out(step_out), type_in(step_in);
  CUDA_OK(cudaMemset(received.data(), 0, static_cast<std::size_t>(bytes * step_in)));
  auto* const out = reinterpret_cast<int*>(sent.data());
  auto* const in = reinterpret_cast<int*>(received.data());
  auto* const epoch = reinterpret_cast<int*>(counter.data());
  std::array requests = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_EQ(Partita_Recv_init(in, count, type_in.type(), left, 0, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Send_init(out, count, type_out.type(), right, 0, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Matchall(2, requests.data()), MPI_SUCCESS);
  const SharedVerdict verdict;
  const Stream stream;
  cudaStream_t native = stream;
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_EQ(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native), MPI_SUCCESS);
  CUDA_OK(cudaMemsetAsync(epoch, 0, sizeof(int), stream));
  const auto run = [&](int first) {
    write<<<8, 256, 0, stream>>>(out, count, step_out, rank(), epoch);
    EXPECT_EQ(Partita_Enqueue_startall(queue, 2, requests.data()), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queue, &requests[first]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queue, &requests[1 - first]), MPI_SUCCESS);
    look<<<8, 256, 0, stream>>>(in, count, step_in, left, epoch, verdict.get());
    count_on<<<1, 1, 0, stream>>>(epoch);
  };
  for (int i = 0; i < 20; ++i) run(i % 2);
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 1; i <= GetParam().epochs_of_graph; ++i) run(i % 2);
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay = nullptr;
  CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < GetParam().launches; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
  for (int i = 0; i < 20; ++i) run(i % 2);
  EXPECT_EQ(Partita_Queue_wait(queue), MPI_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(stream));
  int epochs = 0;
  CUDA_OK(cudaMemcpy(&epochs, epoch, sizeof epochs, cudaMemcpyDeviceToHost));
  EXPECT_EQ(epochs, 40 + GetParam().epochs_of_graph * GetParam().launches);
  // The host's epochs go the same way.
  for (int i = 0; i < 20; ++i) {
    write<<<8, 256, 0, stream>>>(out, count, step_out, rank(), epoch);
    CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(Partita_Startall(2, requests.data()), MPI_SUCCESS);
    EXPECT_EQ(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
    look<<<8, 256, 0, stream>>>(in, count, step_in, left, epoch, verdict.get());
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

/// Ranks send to the right, by kernels that ask for the end of regular messages and of ready ones, without and in a
/// graph.
TEST_P(KernelsThatAsk, are_told_of_the_end) {
  const int count = GetParam().count;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count;
  const GpuBuffer sent(bytes), received(bytes), counter(static_cast<std::int64_t>(sizeof(int)));
  auto* const out = reinterpret_cast<int*>(sent.data());
  auto* const in = reinterpret_cast<int*>(received.data());
  auto* const epoch = reinterpret_cast<int*>(counter.data());
  for (const bool ready : {false, true}) {
    std::array requests = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
    ASSERT_EQ(Partita_Recv_init(in, count, MPI_INT, left, ready ? 1 : 0, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
    const auto init = ready ? Partita_Rsend_init : Partita_Send_init;
    ASSERT_EQ(init(out, count, MPI_INT, right, ready ? 1 : 0, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
    ASSERT_EQ(Partita_Matchall(2, requests.data()), MPI_SUCCESS);
    MPIX_Completion receive, send;
    ASSERT_EQ(Partita_Queue_completion(requests[0], &receive), MPI_SUCCESS);
    ASSERT_EQ(Partita_Queue_completion(requests[1], &send), MPI_SUCCESS);
    const SharedVerdict verdict;
    const Stream stream;
    cudaStream_t native = stream;
    Partita_Queue queue = PARTITA_QUEUE_NULL;
    ASSERT_EQ(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native), MPI_SUCCESS);
    CUDA_OK(cudaMemsetAsync(epoch, 0, sizeof(int), stream));
    const auto begin = [&] {
      write<<<8, 256, 0, stream>>>(out, count, 1, rank(), epoch);
      EXPECT_EQ(Partita_Enqueue_start(queue, &requests[0]), MPI_SUCCESS);
    };
    const auto end = [&] {
      EXPECT_EQ(Partita_Enqueue_start(queue, &requests[1]), MPI_SUCCESS);
      if (ready) {
        look_for_itself<<<8, 256, 0, stream>>>(receive, in, count, left, epoch, verdict.get());
      } else {
        ask_for_both<<<1, 256, 0, stream>>>(receive, send, in, out, count, left, epoch, verdict.get());
      }
      EXPECT_EQ(Partita_Enqueue_waitall(queue, 2, requests.data()), MPI_SUCCESS);
      count_on<<<1, 1, 0, stream>>>(epoch);
    };
    for (int i = 0; i < 5; ++i) {
      begin();
      if (ready) {  // the peer's receive has started
        CUDA_OK(cudaStreamSynchronize(stream));
        harness_barrier();
      }
      end();
    }
    if (!ready) {
      CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      begin();
      end();
      cudaGraph_t graph = nullptr;
      CUDA_OK(cudaStreamEndCapture(stream, &graph));
      cudaGraphExec_t replay = nullptr;
      CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
      for (int i = 0; i < 50; ++i) CUDA_OK(cudaGraphLaunch(replay, stream));
      CUDA_OK(cudaStreamSynchronize(stream));
      CUDA_OK(cudaGraphExecDestroy(replay));
      CUDA_OK(cudaGraphDestroy(graph));
    }
    EXPECT_EQ(Partita_Queue_wait(queue), MPI_SUCCESS);
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
    EXPECT_EQ(Partita_Queue_free(&queue), MPI_SUCCESS);
    harness_barrier();
    for (Partita_Request& each : requests) EXPECT_EQ(Partita_Request_free(&each), MPI_SUCCESS);
    harness_barrier();
  }
}

/// A hundred thousand epochs that no host has asked for one by one.
INSTANTIATE_TEST_SUITE_P(Replays, StreamMessages, testing::Values(Case{1000, 1, 1, 20, 5'000}));
struct Late {
  int count;
  bool on_gpu;  ///< else the engine moves what lies in host memory
};

class LateMessages : public testing::TestWithParam<Late> {
 protected:
  void SetUp() override { choose_gpu(); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// The peer is late. What waits for the event alone, another stream or the host, finds the data.
TEST_P(LateMessages, hold_back_an_event_behind_their_wait) {
  const int count = GetParam().count;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count;
  const GpuBuffer sent(bytes), received(bytes), counter(static_cast<std::int64_t>(sizeof(int)));
  std::vector<int> host_sent(static_cast<std::size_t>(count)), host_received(static_cast<std::size_t>(count), -1);
  auto* const gpu_out = reinterpret_cast<int*>(sent.data());
  auto* const gpu_in = reinterpret_cast<int*>(received.data());
  auto* const epoch = reinterpret_cast<int*>(counter.data());
  int* const out = GetParam().on_gpu ? gpu_out : host_sent.data();
  int* const in = GetParam().on_gpu ? gpu_in : host_received.data();
  std::array requests = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_EQ(Partita_Recv_init(in, count, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Send_init(out, count, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
  ASSERT_EQ(Partita_Matchall(2, requests.data()), MPI_SUCCESS);
  const SharedVerdict verdict;
  const Stream receives, sends, looks;
  std::array<cudaStream_t, 2> native = {receives, sends};
  std::array queues = {PARTITA_QUEUE_NULL, PARTITA_QUEUE_NULL};
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Partita_Queue_init(&queues[i], PARTITA_QUEUE_CUDA, &native[i]), MPI_SUCCESS);
  cudaEvent_t is_there = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&is_there, cudaEventDisableTiming));
  CUDA_OK(cudaMemset(epoch, 0, sizeof(int)));
  CUDA_OK(cudaDeviceSynchronize());
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(Partita_Enqueue_start(queues[0], &requests[0]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queues[0], &requests[0]), MPI_SUCCESS);
    CUDA_OK(cudaEventRecord(is_there, receives));
    if (GetParam().on_gpu) {
      CUDA_OK(cudaStreamWaitEvent(looks, is_there, 0));
      look<<<8, 256, 0, looks>>>(gpu_in, count, 1, left, epoch, verdict.get());
      count_on<<<1, 1, 0, looks>>>(epoch);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(cudaEventQuery(is_there), cudaErrorNotReady) << "nobody has sent";
    harness_barrier();
    for (int i = 0; i < count; ++i) host_sent[static_cast<std::size_t>(i)] = value(rank(), round, i);
    if (GetParam().on_gpu) {
      CUDA_OK(cudaMemcpyAsync(out, host_sent.data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, sends));
    }
    EXPECT_EQ(Partita_Enqueue_start(queues[1], &requests[1]), MPI_SUCCESS);
    EXPECT_EQ(Partita_Enqueue_wait(queues[1], &requests[1]), MPI_SUCCESS);
    CUDA_OK(cudaEventSynchronize(is_there));
    for (int i = 0; !GetParam().on_gpu && i < count; ++i) ASSERT_EQ(value(left, round, i), in[i]);
    for (const Partita_Queue each : queues) EXPECT_EQ(Partita_Queue_wait(each), MPI_SUCCESS);
    CUDA_OK(cudaStreamSynchronize(looks));
    harness_barrier();  // all have looked
  }
  verdict.expect_good();
  CUDA_OK(cudaEventDestroy(is_there));
  for (Partita_Queue& each : queues) EXPECT_EQ(Partita_Queue_free(&each), MPI_SUCCESS);
  harness_barrier();
  for (Partita_Request& each : requests) EXPECT_EQ(Partita_Request_free(&each), MPI_SUCCESS);
  harness_barrier();
}
INSTANTIATE_TEST_SUITE_P(OnGpu, LateMessages, testing::Values(Late{1, true}, Late{200'000, true}));
INSTANTIATE_TEST_SUITE_P(OnHost, LateMessages, testing::Values(Late{1000, false}));

constexpr Case dense[] = {{1}, {1000}, {16 * 1024}, {200'000}, {4'000'001}};
INSTANTIATE_TEST_SUITE_P(Sizes, StreamMessages, testing::ValuesIn(dense));
INSTANTIATE_TEST_SUITE_P(Sizes, KernelsThatAsk, testing::ValuesIn(dense));
INSTANTIATE_TEST_SUITE_P(Gaps, StreamMessages,
                         testing::Values(Case{1, 2, 3}, Case{1000, 3, 1}, Case{16 * 1024, 1, 2}, Case{200'000, 2, 3}));

}  // namespace
}  // namespace partita::test
