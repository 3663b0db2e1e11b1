// True early-bird transfer from kernels: a partition that a kernel marks arrives while the kernel holds the others
// back, with default settings, over each link, moved by the kernel or by the engine, in epochs that hosts open or
// kernels. tests/mpi/early_test.cpp has hosts mark.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <chrono>
#include <string>

#include "gpu/gpu_requests.cuh"
#include "gpu/marking.cuh"
#include "support/random.hpp"

namespace partita::test {
namespace {

constexpr std::uint64_t arrival_limit_ns = 5'000'000'000;
/// Longer, so that a partition that does not arrive is told by who waits for it, and all are marked nonetheless.
constexpr std::uint64_t gate_limit_ns = 4 * arrival_limit_ns;

/// One after another up to this many, then all that are left.
constexpr int most_alone = 8;
constexpr int most_partitions = 512;

struct Order {
  int partitions;
  short partition[most_partitions];

  __host__ __device__ int alone() const { return partitions < most_alone ? partitions : most_alone; }
};

/// Host memory: how many marks the host lets the kernel make, and what a kernel that awaits them has found.
struct Gate {
  int open_marks;
  int arrivals;
  int unmarked_arrivals;
};

/// Thread 0's: whether the gate opens for mark `mark` in time.
__device__ bool pass(const Gate* gate, int mark, Verdict* verdict) {
  const std::uint64_t since = device::now_ns();
  while (static_cast<const volatile Gate*>(gate)->open_marks <= mark) {
    if (device::now_ns() - since < gate_limit_ns) continue;
    atomicAdd_system(&verdict->never_arrived, 1);
    return false;
  }
  return true;
}

enum class Opens { host, kernel };

/// One block: a mark each time that the gate opens for one more.
__global__ void __launch_bounds__(256)
    mark_one_by_one(const __grid_constant__ MPIX_Prequest send, const __grid_constant__ Order order, Opens who,
                    std::uint64_t round, const Gate* gate, Verdict* verdict) {
  if (who == Opens::kernel && failed(MPIX_Pstart(send), verdict)) return;
  if (who == Opens::kernel && failed(MPIX_Pbuf_prepare(send), verdict)) return;
  const std::int64_t bytes = send.total_bytes / order.partitions;
  for (int mark = 0; mark < order.partitions; ++mark) {
    const bool stopped = threadIdx.x == 0 && !pass(gate, mark, verdict);
    if (__syncthreads_or(stopped ? 1 : 0) != 0) return;
    const int p = order.partition[mark];
    write_partition(send.buffer, bytes, p, round, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
    failed(MPIX_Pready_block(p, send), verdict);
  }
  if (who == Opens::kernel) failed(MPIX_Pwait(send), verdict);
}

/// One block opens the epoch of a receive and awaits the partitions in the order in which they are marked.
__global__ void __launch_bounds__(256)
    await_one_by_one(const __grid_constant__ MPIX_Prequest recv, const __grid_constant__ Order order,
                     std::uint64_t round, Gate* gate, Verdict* verdict) {
  if (failed(MPIX_Pstart(recv), verdict)) return;
  const std::int64_t bytes = recv.total_bytes / order.partitions;
  const int lane = static_cast<int>(threadIdx.x);
  for (int mark = 0; mark < order.alone(); ++mark) {
    const int p = order.partition[mark];
    const bool missing = lane == 0 && !poll(recv, p, arrival_limit_ns, verdict);
    if (__syncthreads_or(missing ? 1 : 0) != 0) return;
    compare(recv.buffer, p * bytes + lane, (p + 1) * bytes, blockDim.x, round, verdict);
    for (int later = mark + 1 + lane; later < order.partitions; later += static_cast<int>(blockDim.x)) {
      int arrived = 0;
      failed(MPIX_Parrived(recv, order.partition[later], &arrived), verdict);
      if (arrived != 0) atomicAdd_system(&gate->unmarked_arrivals, 1);
    }
    __syncthreads();
    if (lane == 0) atomicAdd_system(&gate->arrivals, 1);
  }
  failed(MPIX_Pwait(recv), verdict);
  compare(recv.buffer, lane, recv.total_bytes, blockDim.x, round, verdict);
}

__global__ void await_one(MPIX_Prequest recv, int partition, Verdict* verdict) {
  poll(recv, partition, arrival_limit_ns, verdict);
}

class SharedGate {
 public:
  SharedGate() {
    must(cudaHostAlloc(reinterpret_cast<void**>(&gate_), sizeof(Gate), cudaHostAllocPortable), "cudaHostAlloc");
  }
  ~SharedGate() { cudaFreeHost(gate_); }
  SharedGate(const SharedGate&) = delete;
  SharedGate& operator=(const SharedGate&) = delete;
  Gate* get() const { return gate_; }
  void close() { *gate_ = {}; }
  void open_for(int marks) { static_cast<volatile Gate*>(gate_)->open_marks = marks; }
  int arrivals() const { return static_cast<const volatile Gate*>(gate_)->arrivals; }
  int unmarked_arrivals() const { return static_cast<const volatile Gate*>(gate_)->unmarked_arrivals; }

 private:
  Gate* gate_ = nullptr;
};

enum class Awaits { host, kernel };

class EarlyKernels : public RingPair {
 protected:
  /// Whether `partition` arrives in time.
  bool arrives(int partition, Awaits who) {
    if (who == Awaits::kernel) {
      await_one<<<1, 1, 0, receiving_>>>(device_recv_, partition, verdict_.get());
      return cudaStreamSynchronize(receiving_) == cudaSuccess && verdict_.get()->never_arrived == 0;
    }
    const auto begin = std::chrono::steady_clock::now();
    while (!has_arrived(partition)) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::nanoseconds(arrival_limit_ns)) return false;
    }
    return true;
  }

  bool has_arrived(int partition) {
    int flag = 0;
    EXPECT_EQ(Partita_Parrived(recv_, partition, &flag), MPI_SUCCESS);
    return flag != 0;
  }

  void run_epoch(const AnyBuffer& in, const Order& order, std::uint64_t round, Awaits who) {
    gate_.close();
    ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    mark_one_by_one<<<1, 256, 0, sending_>>>(device_send_, order, Opens::host, round, gate_.get(), verdict_.get());
    CUDA_OK(cudaGetLastError());
    const std::int64_t bytes = in.size_bytes() / order.partitions;
    bool good = true;
    for (int mark = 0; mark < order.alone() && good; ++mark) {
      const int p = order.partition[mark];
      step("partition " + std::to_string(p) + " arrives before mark " + std::to_string(mark + 1));
      gate_.open_for(mark + 1);
      const bool arrived = arrives(p, who);
      EXPECT_TRUE(arrived) << "partition " << p << " is marked, and its neighbours are held back";
      if (arrived) EXPECT_TRUE(in.holds(round, p * bytes, (p + 1) * bytes)) << "partition " << p;
      for (int later = mark + 1; later < order.partitions; ++later) {
        EXPECT_FALSE(has_arrived(order.partition[later])) << "partition " << order.partition[later] << " is not marked";
      }
      good = !from_any_rank(HasFailure());  // the next mark waits for all receivers
    }
    gate_.open_for(order.partitions);
    CUDA_OK(cudaStreamSynchronize(sending_));
    EXPECT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    verdict_.expect_good();
  }

  /// Kernels open and complete the epoch at both sides.
  void run_epoch_of_kernels(const Order& order, std::uint64_t round) {
    gate_.close();
    harness_barrier();
    await_one_by_one<<<1, 256, 0, receiving_>>>(device_recv_, order, round, gate_.get(), verdict_.get());
    CUDA_OK(cudaGetLastError());
    mark_one_by_one<<<1, 256, 0, sending_>>>(device_send_, order, Opens::kernel, round, gate_.get(), verdict_.get());
    CUDA_OK(cudaGetLastError());
    bool good = true;
    for (int mark = 0; mark < order.alone() && good; ++mark) {
      const int p = order.partition[mark];
      step("partition " + std::to_string(p) + " arrives before mark " + std::to_string(mark + 1));
      gate_.open_for(mark + 1);
      const auto begin = std::chrono::steady_clock::now();
      while (gate_.arrivals() <= mark &&
             std::chrono::steady_clock::now() - begin < std::chrono::nanoseconds(2 * arrival_limit_ns)) {
      }
      EXPECT_GT(gate_.arrivals(), mark) << "partition " << p << " is marked, and its neighbours are held back";
      EXPECT_EQ(gate_.unmarked_arrivals(), 0);
      good = !from_any_rank(HasFailure());  // the next mark waits for all receivers
    }
    gate_.open_for(order.partitions);
    CUDA_OK(cudaStreamSynchronize(sending_));
    CUDA_OK(cudaStreamSynchronize(receiving_));
    verdict_.expect_good();
  }

 private:
  SharedGate gate_;
  SharedVerdict verdict_;
  Stream sending_;
  Stream receiving_;
};

struct Shape {
  int partitions;
  std::int64_t partition_bytes;
};

TEST_F(EarlyKernels, each_partition_arrives_while_the_kernel_holds_the_others_back) {
  // Where there are many partitions, those that are marked together are announced together, too.
  const Shape shapes[] = {{8, 1024}, {8, 4096}, {8, 64 * 1024}, {8, 1024 * 1024}, {64, 2048}, {512, 1024}};
  Random random(20261128);  // the same order on all ranks
  for (const Shape& shape : shapes) {
    const std::string text =
        std::to_string(shape.partitions) + " x " + std::to_string(shape.partition_bytes) + " bytes";
    SCOPED_TRACE(text);
    const GpuBuffer out(shape.partitions * shape.partition_bytes);
    const GpuBuffer in(shape.partitions * shape.partition_bytes);
    make(out, in, shape.partitions, "host");
    if (HasFatalFailure()) return;
    for (std::uint64_t round = 1; round <= 6; ++round) {
      Order order{shape.partitions, {}};
      const auto permutation = random.permutation(shape.partitions);
      std::copy(permutation.begin(), permutation.end(), order.partition);
      run_epoch(in, order, round, round % 2 == 0 ? Awaits::kernel : Awaits::host);
      if (from_any_rank(HasFailure())) return;
    }
    free();
  }
}

TEST_F(EarlyKernels, each_partition_arrives_in_epochs_that_kernels_open) {
  if (from_any_rank(!kernels_reach(rank(), next()))) {
    GTEST_SKIP() << "device-driven requests need kernels that store into the peer's memory, not link "
                 << expected_link() << " or the engine";
  }
  // The first in packets.
  const Shape shapes[] = {{8, 1024}, {8, 4096}, {8, 64 * 1024}, {8, 1024 * 1024}, {64, 2048}, {512, 1024}};
  Random random(20261130);  // the same order on all ranks
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.partitions) + " x " + std::to_string(shape.partition_bytes) + " bytes");
    const GpuBuffer out(shape.partitions * shape.partition_bytes);
    const GpuBuffer in(shape.partitions * shape.partition_bytes);
    make(out, in, shape.partitions, "device");
    if (HasFatalFailure()) return;
    for (std::uint64_t round = 1; round <= 4; ++round) {
      Order order{shape.partitions, {}};
      const auto permutation = random.permutation(shape.partitions);
      std::copy(permutation.begin(), permutation.end(), order.partition);
      run_epoch_of_kernels(order, round);
      if (from_any_rank(HasFailure())) return;
    }
    free();
  }
}

}  // namespace
}  // namespace partita::test
