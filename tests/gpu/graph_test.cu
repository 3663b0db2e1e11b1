// Kernels that mark, open and await epochs as nodes of CUDA graphs, captured once and replayed. A ring: each rank sends
// to the next one.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

/// What kernels of all replays find, and the round that they are in; in managed memory.
struct Tally {
  unsigned long long round = 1;
  unsigned long long wrong_bytes = 0;
  int failed_calls = 0;
  int first_code = 0;
};

__device__ bool failed(int code, Tally* tally) {
  if (code == PARTITA_DEVICE_SUCCESS) return false;
  if (atomicAdd(&tally->failed_calls, 1) == 0) tally->first_code = code;
  return true;
}

/// Block b writes partition `first` + b of this round, and marks it.
__global__ void write_and_mark(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, int first, Tally* tally) {
  const int p = first + static_cast<int>(blockIdx.x);
  const std::int64_t begin = p * bytes;
  for (std::int64_t i = begin + threadIdx.x; i < begin + bytes; i += blockDim.x) out[i] = byte_at(tally->round, i);
  const int code = MPIX_Pready_block(p, send);
  if (threadIdx.x == 0) failed(code, tally);
}

/// Each thread writes and marks a partition.
__global__ void write_and_mark_by_threads(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, int first,
                                          int last, Tally* tally) {
  const int p = first + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (p > last) return;
  for (std::int64_t i = p * bytes; i < (p + 1) * bytes; ++i) out[i] = byte_at(tally->round, i);
  failed(MPIX_Pready(p, send), tally);
}

/// Block b awaits partition b and compares it.
__global__ void await_and_compare(MPIX_Prequest recv, const unsigned char* in, std::int64_t bytes, Tally* tally) {
  __shared__ int gave_up;
  const int p = static_cast<int>(blockIdx.x);
  if (threadIdx.x == 0) {
    const partita_u64 since = device::now_ns();
    int arrived = 0;
    int code = 0;
    while (arrived == 0 && code == 0) {
      code = MPIX_Parrived(recv, p, &arrived);
      if (code == 0 && device::now_ns() - since > 20'000'000'000) code = PARTITA_DEVICE_ERR_TIMEOUT;
    }
    gave_up = failed(code, tally);
  }
  __syncthreads();
  unsigned long long wrong = 0;
  for (std::int64_t i = p * bytes + threadIdx.x; i < (p + 1) * bytes; i += blockDim.x) {
    wrong += in[i] != byte_at(tally->round, i);
  }
  if (gave_up == 0 && wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
}

__global__ void compare(const unsigned char* in, std::int64_t bytes, Tally* tally) {
  unsigned long long wrong = 0;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    wrong += in[i] != byte_at(tally->round, i);
  }
  if (wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
}

__global__ void end_round(Tally* tally) {
  ++tally->round;
}

/// One block, device-driven.
__global__ void open(MPIX_Prequest send, MPIX_Prequest recv, Tally* tally) {
  const int code = MPIX_Pstart(recv) | MPIX_Pstart(send);
  if (threadIdx.x == 0) failed(code, tally);
}
__global__ void prepare(MPIX_Prequest send, Tally* tally) {
  const int code = MPIX_Pbuf_prepare(send);
  if (threadIdx.x == 0) failed(code, tally);
}
__global__ void await(MPIX_Prequest request, Tally* tally) {
  const int code = MPIX_Pwait(request);
  if (threadIdx.x == 0) failed(code, tally);
}

/// What is launched on `stream` between construction and make(), as a graph.
class Graph {
 public:
  explicit Graph(cudaStream_t stream) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void make() {
    CUDA_OK(cudaStreamEndCapture(stream_, &graph_));
    CUDA_OK(cudaGraphInstantiate(&executable_, graph_, 0));
    CUDA_OK(cudaGraphUpload(executable_, stream_));
    CUDA_OK(cudaStreamSynchronize(stream_));
  }
  void launch() { CUDA_OK(cudaGraphLaunch(executable_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

void expect_rounds(const Managed<Tally>& tally, int rounds) {
  EXPECT_EQ(tally->failed_calls, 0) << "first code " << tally->first_code;
  EXPECT_EQ(tally->wrong_bytes, 0u);
  EXPECT_EQ(tally->round, static_cast<unsigned long long>(rounds) + 1);
}

using HostDrivenGraphs = RingPair;
using DeviceDrivenGraphs = RingPair;

/// `usual`, or fewer where PARTITEST_ROUNDS says so.
int rounds_of(int usual) {
  return std::min(usual, static_cast<int>(environment_number("PARTITEST_ROUNDS", usual)));
}

/// Start, replay, Wait. The partitions are marked by two kernels on two branches of the sender's graph; the receiver's
/// host compares, or kernels of a graph of its own.
TEST_F(HostDrivenGraphs, marks_are_replayed_epoch_by_epoch) {
  struct Case {
    std::int64_t partition_bytes;
    int partitions;
    int rounds;
  };
  Random random(job_seed());
  for (Case shape : std::vector<Case>{{8, 1, 300}, {24, 65, 300}, {4096, 16, 300}, {100'003, 32, 60}}) {
    shape.rounds = rounds_of(shape.rounds);
    const std::string text =
        std::to_string(shape.partitions) + " partitions of " + std::to_string(shape.partition_bytes) + " bytes";
    SCOPED_TRACE(text);
    step(text);
    const int half = shape.partitions / 2;
    GpuBuffer out(shape.partition_bytes * shape.partitions);
    GpuBuffer in(out.size_bytes());
    make(out, in, shape.partitions, "host");
    ASSERT_FALSE(HasFatalFailure());
    Managed<Tally> sent;
    Managed<Tally> received;
    Stream sending;
    Stream branch;
    Stream receiving;
    cudaEvent_t fork = nullptr;
    cudaEvent_t join = nullptr;
    CUDA_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    Graph marks(sending);
    CUDA_OK(cudaEventRecord(fork, sending));
    CUDA_OK(cudaStreamWaitEvent(branch, fork));
    write_and_mark<<<shape.partitions - half, 64, 0, sending>>>(device_send_, out.data(), shape.partition_bytes, half,
                                                                sent.get());
    write_and_mark_by_threads<<<(half + 31) / 32 + 1, 32, 0, branch>>>(device_send_, out.data(), shape.partition_bytes,
                                                                       0, half - 1, sent.get());
    CUDA_OK(cudaEventRecord(join, branch));
    CUDA_OK(cudaStreamWaitEvent(sending, join));
    end_round<<<1, 1, 0, sending>>>(sent.get());
    marks.make();
    Graph arrivals(receiving);
    await_and_compare<<<shape.partitions, 64, 0, receiving>>>(device_recv_, in.data(), shape.partition_bytes,
                                                              received.get());
    end_round<<<1, 1, 0, receiving>>>(received.get());
    arrivals.make();
    ASSERT_FALSE(HasFailure());

    int by_kernels = 0;
    for (int round = 1; round <= shape.rounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      const bool recv_late = random.one_in(3);
      const bool by_kernel = random.one_in(2);
      const bool prepares = !recv_late && random.one_in(2);
      received->round = static_cast<unsigned long long>(round);
      if (!recv_late) ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
      if (prepares) ASSERT_EQ(Partita_Pbuf_prepare(send_), MPI_SUCCESS);
      marks.launch();
      if (recv_late) {
        CUDA_OK(cudaStreamSynchronize(sending));
        ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
      }
      if (by_kernel) arrivals.launch();
      ASSERT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      if (by_kernel) {
        ++by_kernels;
        CUDA_OK(cudaStreamSynchronize(receiving));
        expect_rounds(received, round);
      } else {
        ASSERT_TRUE(in.holds(static_cast<std::uint64_t>(round), 0, in.size_bytes()));
      }
      ASSERT_FALSE(HasFailure());
    }
    CUDA_OK(cudaStreamSynchronize(sending));
    expect_rounds(sent, shape.rounds);
    EXPECT_GT(by_kernels, 0);
    EXPECT_LT(by_kernels, shape.rounds);
    CUDA_OK(cudaEventDestroy(fork));
    CUDA_OK(cudaEventDestroy(join));
    free();
  }
}

/// Partita's own copies, registrations and allocations leave a capture of the program's alone.
TEST_F(HostDrivenGraphs, requests_are_made_and_run_while_the_program_captures) {
  const std::int64_t bytes = 64 * 1024;
  GpuBuffer out(bytes);
  GpuBuffer in(bytes);
  GpuBuffer captured(bytes);
  Managed<Tally> tally;
  Stream stream;
  out.fill(7);
  harness_barrier();
  Graph graph(stream);
  compare<<<4, 64, 0, stream>>>(captured.data(), bytes, tally.get());
  make(out, in, 4, "host");
  ASSERT_EQ(Partita_Prequest_free(&device_send_), MPI_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    for (int p = 0; p < 4; ++p) ASSERT_EQ(Partita_Pready(p, send_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    ASSERT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  ASSERT_EQ(Partita_Prequest_create(&device_send_, send_), MPI_SUCCESS);
  end_round<<<1, 1, 0, stream>>>(tally.get());
  graph.make();
  EXPECT_TRUE(in.holds(7, 0, bytes));
  captured.fill(1);
  graph.launch();
  CUDA_OK(cudaStreamSynchronize(stream));
  expect_rounds(tally, 1);
  free();
}

/// A whole epoch of both directions is one graph: opened, prepared, marked by many blocks, awaited and compared by
/// kernels of their own. The hosts only launch it, far ahead.
TEST_F(DeviceDrivenGraphs, whole_epochs_are_replayed_without_a_host) {
  if (gpus_are_shared()) GTEST_SKIP() << "kernels of two ranks that share a GPU hold each other up";
  struct Case {
    std::int64_t partition_bytes;
    int partitions;
    int rounds;
  };
  // Up to 8 KiB in units of 8 bytes, or 32 KiB in partitions of 1 KiB: packets; else flags behind the data.
  const std::vector<Case> cases = {{8, 1, 1000}, {64, 16, 1000},  {1024, 24, 500},
                                   {12, 3, 500}, {4096, 64, 500}, {1 << 18, 8, 100}};
  for (Case shape : cases) {
    shape.rounds = rounds_of(shape.rounds);
    const std::string text =
        std::to_string(shape.partitions) + " partitions of " + std::to_string(shape.partition_bytes) + " bytes";
    SCOPED_TRACE(text);
    step(text);
    GpuBuffer out(shape.partition_bytes * shape.partitions);
    GpuBuffer in(out.size_bytes());
    make(out, in, shape.partitions, "device");
    ASSERT_FALSE(HasFatalFailure());
    Managed<Tally> tally;
    Stream stream;
    Graph graph(stream);
    open<<<1, 32, 0, stream>>>(device_send_, device_recv_, tally.get());
    prepare<<<1, 32, 0, stream>>>(device_send_, tally.get());
    write_and_mark<<<shape.partitions, 64, 0, stream>>>(device_send_, out.data(), shape.partition_bytes, 0,
                                                        tally.get());
    await<<<1, 64, 0, stream>>>(device_send_, tally.get());
    await<<<1, 64, 0, stream>>>(device_recv_, tally.get());
    compare<<<8, 128, 0, stream>>>(in.data(), in.size_bytes(), tally.get());
    end_round<<<1, 1, 0, stream>>>(tally.get());
    graph.make();
    ASSERT_FALSE(HasFailure());
    harness_barrier();
    for (int round = 1; round <= shape.rounds; ++round) graph.launch();
    CUDA_OK(cudaStreamSynchronize(stream));
    expect_rounds(tally, shape.rounds);
    EXPECT_TRUE(in.holds(static_cast<std::uint64_t>(shape.rounds), 0, in.size_bytes()));
    free();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace partita::test
