// Host-driven requests whose hosts sleep between a kernel's marks and the other kernel's sight of them: no CPU takes
// part in kernel copies. Two ranks, a GPU each, and no progress thread (PARTITA_PROGRESS=caller).
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdlib>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

__global__ void __launch_bounds__(256)
    mark_all(MPIX_Prequest send, std::uint64_t round, Grain grain, Verdict* verdict) {
  fill_and_mark(send, round, grain, 2000, verdict);
}

/// A block waits for each of its partitions and compares it.
__global__ void __launch_bounds__(256) await_each(MPIX_Prequest recv, std::uint64_t round, Verdict* verdict) {
  const std::int64_t bytes = recv.total_bytes / recv.recv_partitions;
  for (int p = static_cast<int>(blockIdx.x); p < recv.recv_partitions; p += static_cast<int>(gridDim.x)) {
    if (failed(MPIX_Pwait_partition(p, recv), verdict)) return;
    compare(recv.buffer, p * bytes + threadIdx.x, (p + 1) * bytes, blockDim.x, round, verdict);
  }
}

/// One block waits for all of it.
__global__ void __launch_bounds__(256) await_all(MPIX_Prequest recv, std::uint64_t round, Verdict* verdict) {
  if (failed(MPIX_Pwait(recv), verdict)) return;
  compare(recv.buffer, threadIdx.x, recv.total_bytes, blockDim.x, round, verdict);
}

__global__ void poll_one(MPIX_Prequest recv, int partition, std::uint64_t limit_ns, Verdict* verdict) {
  poll(recv, partition, limit_ns, verdict);
}

class SleepingHosts : public FirstToLast {
 protected:
  static constexpr int send_partitions = 24;
  static constexpr int recv_partitions = 16;

  void SetUp() override {
    FirstToLast::SetUp();
    const char* progress = std::getenv("PARTITA_PROGRESS");
    ASSERT_STREQ(progress, "caller") << "with a progress thread a CPU might take part unseen";
  }

  /// Both sides with a device request; `copy` is the value of partita_gpu_copy.
  void make(GpuBuffer& buffer, const char* copy) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_gpu_copy", copy);
    PMPI_Info_set(info, "partita_transport_partitions", "6");
    if (sends()) {
      ASSERT_EQ(Partita_Psend_init(buffer.data(), send_partitions, buffer.size_bytes() / send_partitions, MPI_BYTE,
                                   receiver(), 12, MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    } else {
      ASSERT_EQ(Partita_Precv_init(buffer.data(), recv_partitions, buffer.size_bytes() / recv_partitions, MPI_BYTE,
                                   sender(), 12, MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    if (sends()) ASSERT_EQ(told(request_, "partita_gpu_copy"), copy) << told(request_, "partita_reason");
  }
  void free() {
    ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }
  /// Opens an epoch on both sides, the receiver's first.
  void start() {
    if (receives()) ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    harness_barrier();
    if (sends()) ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
  }

  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
};

TEST_F(SleepingHosts, kernels_move_and_await_whole_epochs) {
  for (const std::int64_t bytes : {48 * 8, 48 * 1000, 48 * 20000}) {
    GpuBuffer buffer(bytes);
    make(buffer, "kernel");
    SharedVerdict verdict;
    Stream stream;
    std::uint64_t round = 0;
    for (int repeat = 0; repeat < 6; ++repeat) {
      for (const Grain grain : grains) {
        ++round;
        const std::string text = std::to_string(bytes) + " bytes, grain " + name_of(grain);
        SCOPED_TRACE(text);
        step(text);
        start();
        if (HasFatalFailure()) return;
        if (sends()) {
          mark_all<<<4, 64, 0, stream>>>(device_, round, grain, verdict.get());
        } else {
          await_each<<<recv_partitions / 2, 64, 0, stream>>>(device_, round, verdict.get());
          await_all<<<1, 256, 0, stream>>>(device_, round, verdict.get());
        }
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaStreamSynchronize(stream));
        harness_barrier();  // before any call of Partita, on either side
        verdict.expect_good();
        EXPECT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
        if (receives()) EXPECT_TRUE(buffer.holds(round, 0, bytes));
        if (from_any_rank(HasFailure())) return;
      }
    }
    free();
  }
}

/// Hosts sleep as above while the engine, which is a host's, has the transfer: nothing arrives while it lasts. What the
/// case above has seen was none of its work.
TEST_F(SleepingHosts, what_is_left_to_the_engine_waits_for_a_host) {
  const std::int64_t bytes = 48 * 1000;
  GpuBuffer buffer(bytes);
  make(buffer, "engine");
  SharedVerdict verdict;
  Stream stream;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    start();
    if (HasFatalFailure()) return;
    if (sends()) {
      mark_all<<<4, 64, 0, stream>>>(device_, round, Grain::block, verdict.get());
    } else {
      poll_one<<<1, 1, 0, stream>>>(device_, 0, 30'000'000, verdict.get());
    }
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(stream));
    harness_barrier();
    EXPECT_EQ(verdict.get()->failed_calls, 0) << "code " << verdict.get()->code;
    if (receives()) EXPECT_EQ(verdict.get()->never_arrived, static_cast<int>(round));
    EXPECT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (receives()) EXPECT_TRUE(buffer.holds(round, 0, bytes));
    if (from_any_rank(HasFailure())) return;
  }
  free();
}

}  // namespace
}  // namespace partita::test
