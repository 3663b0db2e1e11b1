// Device-driven requests: kernels open, mark, await and close epochs while the hosts sleep. Two ranks, a GPU each.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sys/resource.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

struct Verdict {
  unsigned long long wrong_bytes = 0;
  int failed_calls = 0;
  int rounds = 0;
};

/// One block: every round it sends its buffer, receives the other's and compares. Bytes depend on the round.
__global__ void __launch_bounds__(1024)
    exchange(MPIX_Prequest send, MPIX_Prequest recv, unsigned char* out, const unsigned char* in, std::int64_t bytes,
             int partitions, int rounds, Verdict* verdict) {
  __shared__ int failed;
  if (threadIdx.x == 0) failed = 0;
  __syncthreads();
  unsigned long long wrong = 0;
  const std::int64_t partition_bytes = bytes / partitions;
  for (int round = 1; round <= rounds; ++round) {
    int code = MPIX_Pstart(recv);
    code |= MPIX_Pstart(send);
    for (std::int64_t i = threadIdx.x; i < bytes; i += blockDim.x)
      out[i] = byte_at(static_cast<std::uint64_t>(round), i);
    code |= MPIX_Pbuf_prepare(send);
    for (int p = 0; p < partitions; ++p) code |= MPIX_Pready_block(p, send);
    code |= MPIX_Pwait(send);
    code |= MPIX_Pwait(recv);
    for (std::int64_t i = threadIdx.x; i < partition_bytes * partitions; i += blockDim.x) {
      wrong += in[i] != byte_at(static_cast<std::uint64_t>(round), i);
    }
    if (code != 0) failed = 1;
    __syncthreads();
    if (failed != 0) {
      if (threadIdx.x == 0) {
        verdict->failed_calls = 1;
        verdict->rounds = round;
      }
      break;
    }
  }
  if (wrong != 0) atomicAdd(&verdict->wrong_bytes, wrong);
  if (threadIdx.x == 0 && failed == 0) verdict->rounds = rounds;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class DeviceDriven : public RingPair {
 protected:
  /// Sleeps until what was launched on `stream` has ended, and checks that the whole process slept.
  void sleep_until_done(cudaStream_t stream) {
    cudaEvent_t end = nullptr;
    CUDA_OK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync | cudaEventDisableTiming));
    CUDA_OK(cudaEventRecord(end, stream));
    const double before = cpu_seconds();
    const double begin = MPI_Wtime();
    while (cudaEventQuery(end) == cudaErrorNotReady) usleep(50'000);
    const double elapsed = MPI_Wtime() - begin;
    const double used = cpu_seconds() - before;
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaEventDestroy(end));
    EXPECT_LT(used, 0.05 * elapsed) << "seconds of CPU time in " << elapsed << " s on a rank that should sleep";
  }
};

TEST_F(DeviceDriven, kernels_exchange_any_size_over_many_rounds) {
  struct Case {
    std::int64_t bytes;
    int partitions;
    int threads;
    int rounds;
    Placement placement = Placement::gpu;
  };
  // From 8 bytes to 8 KiB in units of 8 bytes, and to 32 KiB in partitions of 1 KiB: packets; else flags behind the
  // data.
  const std::vector<Case> cases = {{8, 1, 32, 3000},
                                   {64, 1, 32, 3000},
                                   {64, 8, 32, 1000},
                                   {1024, 1, 256, 3000},
                                   {8192, 4, 256, 1000},
                                   {32768, 32, 256, 1000},
                                   {30720, 60, 96, 1000},
                                   {32768, 16, 256, 1000},
                                   {33792, 33, 256, 1000},
                                   {12, 3, 32, 1000},
                                   {0, 2, 32, 200},
                                   {4100, 1, 128, 1000},
                                   {16384, 4, 512, 1000},
                                   {1 << 20, 8, 1024, 100},
                                   {64, 1, 32, 1000, Placement::mapped},
                                   {4100, 1, 128, 1000, Placement::mapped},
                                   {1 << 20, 8, 1024, 100, Placement::mapped}};
  for (Case shape : cases) {
    shape.rounds = static_cast<int>(environment_number("PARTITEST_ROUNDS", shape.rounds));
    const std::string text = std::to_string(shape.bytes) + " bytes in " + std::to_string(shape.partitions) +
                             " partitions, " + name_of(shape.placement) + " memory";
    SCOPED_TRACE(text);
    step(text);
    GpuBuffer out(shape.bytes, shape.placement);
    GpuBuffer in(shape.bytes, shape.placement);
    make(out, in, shape.partitions, "device");
    ASSERT_FALSE(HasFatalFailure());
    Verdict* verdict = nullptr;
    CUDA_OK(cudaMallocManaged(&verdict, sizeof(Verdict)));
    *verdict = {};
    Stream stream;
    harness_barrier();
    exchange<<<1, shape.threads, 0, stream>>>(device_send_, device_recv_, out.data(), in.data(), shape.bytes,
                                              shape.partitions, shape.rounds, verdict);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(verdict->failed_calls, 0) << "in round " << verdict->rounds;
    EXPECT_EQ(verdict->wrong_bytes, 0u);
    EXPECT_EQ(verdict->rounds, shape.rounds);
    CUDA_OK(cudaFree(verdict));
    free();
    if (HasFailure()) return;
  }
}

TEST_F(DeviceDriven, a_hundred_thousand_epochs_run_while_the_hosts_sleep) {
  const int rounds = 100'000;
  GpuBuffer out(256);
  GpuBuffer in(256);
  make(out, in, 1, "device");
  ASSERT_FALSE(HasFatalFailure());
  Verdict* verdict = nullptr;
  CUDA_OK(cudaMallocManaged(&verdict, sizeof(Verdict)));
  *verdict = {};
  Stream stream;
  harness_barrier();
  exchange<<<1, 64, 0, stream>>>(device_send_, device_recv_, out.data(), in.data(), 256, 1, rounds, verdict);
  CUDA_OK(cudaGetLastError());
  sleep_until_done(stream);
  EXPECT_EQ(verdict->failed_calls, 0) << "in round " << verdict->rounds;
  EXPECT_EQ(verdict->wrong_bytes, 0u);
  EXPECT_EQ(verdict->rounds, rounds);
  CUDA_OK(cudaFree(verdict));
  free();
}

/// Words of GPU memory that the blocks of a grid share; 0 in front of the launch.
struct GridWords {
  int failed_calls;  ///< of all blocks
  int stop;          ///< block 0 alone writes it, and never while others may read it
  int rounds;        ///< complete ones
  unsigned long long wrong_words;
};

/// Word `i` of the whole buffer in `round`.
__device__ std::uint64_t word_at(int round, int i) {
  return (static_cast<std::uint64_t>(round) << 32 | static_cast<std::uint32_t>(i)) * 0x9e3779b97f4a7c15U;
}

/// A cooperative grid: block b writes and marks partition b, awaits partition b + 1 and looks at each word of it; block
/// 0 opens and completes the epochs. Behind the first barrier of a round the epoch is open and the buffers are the
/// blocks'; behind the second all have marked, and have done with what they received.
__global__ void __launch_bounds__(256)
    exchange_by_blocks(MPIX_Prequest send, MPIX_Prequest recv, std::uint64_t* out, const std::uint64_t* in,
                       int words_each, int rounds, GridWords* shared) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  const bool leads = blockIdx.x == 0;
  const int own = static_cast<int>(blockIdx.x);
  const int awaited = static_cast<int>((blockIdx.x + 1) % gridDim.x);
  const auto stop_if = [&](int code) {
    if (code == 0 || threadIdx.x != 0) return;
    atomicAdd(&shared->failed_calls, 1);
    shared->stop = 1;
  };
  unsigned long long wrong = 0;
  int code = 0;
  for (int round = 1; round <= rounds; ++round) {
    if (leads && code == 0) {
      code = MPIX_Pstart(recv);
      if (code == 0) code = MPIX_Pstart(send);
      if (code == 0) code = MPIX_Pbuf_prepare(send);
      stop_if(code);
    }
    grid.sync();
    if (*static_cast<volatile int*>(&shared->stop) != 0) break;
    for (int i = own * words_each + threadIdx.x; i < (own + 1) * words_each; i += blockDim.x)
      out[i] = word_at(round, i);
    code = MPIX_Pready_block(own, send);
    if (code == 0) code = MPIX_Pwait_partition(awaited, recv);
    for (int i = awaited * words_each + threadIdx.x; i < (awaited + 1) * words_each && code == 0; i += blockDim.x) {
      wrong += in[i] != word_at(round, i);
    }
    if (code != 0 && threadIdx.x == 0) atomicAdd(&shared->failed_calls, 1);
    grid.sync();
    if (leads) {
      // What a block could not mark nobody can wait for.
      code = *static_cast<volatile int*>(&shared->failed_calls);
      if (code == 0) code = MPIX_Pwait(send);
      if (code == 0) code = MPIX_Pwait(recv);
      if (code == 0 && threadIdx.x == 0) shared->rounds = round;
      stop_if(code);
    }
  }
  if (wrong != 0) atomicAdd(&shared->wrong_words, wrong);
}

/// With flags behind the bytes, a partition a block, two of which share a flag.
TEST_F(DeviceDriven, a_hundred_thousand_epochs_of_many_blocks_run_with_flags_while_the_hosts_sleep) {
  int blocks = 16;
  int words_each = 256;
  int rounds = 100'000;
  constexpr int transport_partitions = 8;
  const std::int64_t bytes = std::int64_t{8} * blocks * words_each;
  ASSERT_FALSE(fits_packets(blocks, blocks, bytes));
  GpuBuffer out(bytes);
  GpuBuffer in(bytes);
  make(out, in, blocks, "device", transport_partitions);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(told(send_, "partita_transport_partitions"), std::to_string(transport_partitions));
  GridWords* shared = nullptr;
  CUDA_OK(cudaMalloc(&shared, sizeof *shared));
  CUDA_OK(cudaMemset(shared, 0, sizeof *shared));
  CUDA_OK(cudaDeviceSynchronize());
  auto* out_words = reinterpret_cast<std::uint64_t*>(out.data());
  const auto* in_words = reinterpret_cast<const std::uint64_t*>(in.data());
  void* arguments[] = {&device_send_, &device_recv_, &out_words, &in_words, &words_each, &rounds, &shared};
  Stream stream;
  harness_barrier();
  CUDA_OK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(exchange_by_blocks),
                                      dim3(static_cast<unsigned>(blocks)), dim3(128), arguments, 0, stream));
  sleep_until_done(stream);
  GridWords found{};
  CUDA_OK(cudaMemcpy(&found, shared, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT_EQ(found.failed_calls, 0);
  EXPECT_EQ(found.wrong_words, 0u);
  EXPECT_EQ(found.rounds, rounds);
  CUDA_OK(cudaFree(shared));
  free();
}

TEST_F(DeviceDriven, hosts_may_not_open_its_epochs) {
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  GpuBuffer out(64);
  GpuBuffer in(64);
  make(out, in, 1, "device");
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_NE(Partita_Start(&send_), MPI_SUCCESS);
  EXPECT_NE(Partita_Start(&recv_), MPI_SUCCESS);
  free();
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

__global__ void wait_alone(MPIX_Prequest recv, int* code) {
  int result = MPIX_Pstart(recv);
  if (result == 0) result = MPIX_Pwait(recv);
  if (threadIdx.x == 0) *code = result;
}

/// PARTITA_TIMEOUT ends a kernel's wait too.
TEST_F(DeviceDriven, a_wait_in_vain_ends_at_the_time_limit) {
  GpuBuffer out(64);
  GpuBuffer in(64);
  make(out, in, 1, "device");
  ASSERT_FALSE(HasFatalFailure());
  if (rank() == 0) {
    Partita_Prequest hurried = device_recv_;
    hurried.limit_ns = 200'000'000;
    int* code = nullptr;
    CUDA_OK(cudaMallocManaged(&code, sizeof(int)));
    *code = 0;
    Stream stream;
    wait_alone<<<1, 32, 0, stream>>>(hurried, code);
    CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(*code, PARTITA_DEVICE_ERR_TIMEOUT);
    CUDA_OK(cudaFree(code));
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT_NE(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS) << "the host hears of it";
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  }
  harness_barrier();
  free();
}

}  // namespace
}  // namespace partita::test
