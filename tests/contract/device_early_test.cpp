// True early-bird transfer of what kernels mark and hosts move: a partition arrives while the kernel holds the others
// back, over each link. The fake GPU, threads stand for kernels; tests/gpu's early_kernels has kernels mark.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto arrival_limit = std::chrono::seconds(5);
constexpr auto gate_limit = 4 * arrival_limit;
/// One after another up to this many, then all that are left.
constexpr int most_alone = 8;

enum class Awaits { host, kernel };

class DeviceEarly : public testing::Test {
 protected:
  /// A send to the next rank, and a receive from the one before.
  void make(int partitions, std::int64_t partition_bytes) {
    partitions_ = partitions;
    partition_bytes_ = partition_bytes;
    const auto size_bytes = static_cast<std::size_t>(partitions * partition_bytes);
    out_ = std::make_unique<FakeGpuBuffer>(mapped, size_bytes);
    in_ = std::make_unique<FakeGpuBuffer>(mapped, size_bytes);
    const int next = (rank() + 1) % ranks();
    const int before = (rank() + ranks() - 1) % ranks();
    ASSERT_EQ(Partita_Psend_init(out_->data(), partitions, partition_bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &send_),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Precv_init(in_->data(), partitions, partition_bytes, MPI_BYTE, before, 3, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &recv_),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Prequest_create(&device_send_, send_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Prequest_create(&device_recv_, recv_), MPI_SUCCESS);
  }
  void free() {
    EXPECT_EQ(Partita_Prequest_free(&device_send_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&device_recv_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    harness_barrier();  // nobody maps the buffers any more
    out_.reset();
    in_.reset();
  }

  bool has_arrived(int partition, Awaits who) {
    int flag = 0;
    if (who == Awaits::host) {
      EXPECT_EQ(Partita_Parrived(recv_, partition, &flag), MPI_SUCCESS);
    } else {
      EXPECT_EQ(MPIX_Parrived(device_recv_, partition, &flag), PARTITA_DEVICE_SUCCESS);
    }
    return flag != 0;
  }
  bool arrives(int partition, Awaits who) {
    const auto end = Clock::now() + arrival_limit;
    while (!has_arrived(partition, who)) {
      if (Clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  bool holds(std::uint64_t round, int partition) const {
    const std::int64_t first = partition * partition_bytes_;
    return first_off_pattern(in_->data() + first, round, first, first + partition_bytes_) == first + partition_bytes_;
  }

  /// A thread's: a mark each time that the host opens the gate for one more.
  void mark_one_by_one(const std::vector<int>& order, std::uint64_t round) {
    const auto end = Clock::now() + gate_limit;
    for (int mark = 0; mark < partitions_; ++mark) {
      while (open_marks_.load(std::memory_order_acquire) <= mark) {
        if (Clock::now() > end) return;
        std::this_thread::yield();
      }
      const std::int64_t first = order[static_cast<std::size_t>(mark)] * partition_bytes_;
      write_pattern(out_->data() + first, round, first, first + partition_bytes_);
      EXPECT_EQ(MPIX_Pready(order[static_cast<std::size_t>(mark)], device_send_), PARTITA_DEVICE_SUCCESS);
    }
  }

  void run_epoch(const std::vector<int>& order, std::uint64_t round, Awaits who) {
    open_marks_ = 0;
    ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    std::thread kernel([&] { mark_one_by_one(order, round); });
    const int alone = std::min(partitions_, most_alone);
    for (int mark = 0; mark < alone; ++mark) {
      const int p = order[static_cast<std::size_t>(mark)];
      step("partition " + std::to_string(p) + " arrives before mark " + std::to_string(mark + 1));
      open_marks_ = mark + 1;
      const bool arrived = arrives(p, who);
      EXPECT_TRUE(arrived) << "partition " << p << " is marked, and its neighbours are held back";
      EXPECT_TRUE(!arrived || holds(round, p)) << "partition " << p;
      for (int later = mark + 1; later < partitions_; ++later) {
        EXPECT_FALSE(has_arrived(order[static_cast<std::size_t>(later)], who));
      }
      harness_barrier();  // the next mark waits for all receivers
    }
    open_marks_ = partitions_;
    kernel.join();
    EXPECT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    for (int p = 0; p < partitions_; ++p) EXPECT_TRUE(holds(round, p)) << "partition " << p;
  }

 private:
  int partitions_ = 0;
  std::int64_t partition_bytes_ = 0;
  std::unique_ptr<FakeGpuBuffer> out_;
  std::unique_ptr<FakeGpuBuffer> in_;
  Partita_Request send_ = PARTITA_REQUEST_NULL;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest device_send_{};
  MPIX_Prequest device_recv_{};
  std::atomic<int> open_marks_{0};
};

TEST_F(DeviceEarly, each_partition_arrives_while_the_kernel_holds_the_others_back) {
  struct Shape {
    int partitions;
    std::int64_t partition_bytes;
  };
  // Where there are many partitions, those that are marked together are announced together, too.
  const Shape shapes[] = {{8, 1024}, {8, 64 * 1024}, {64, 2048}};
  Random random(20261128);  // the same order on all ranks
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.partitions) + " x " + std::to_string(shape.partition_bytes) + " bytes");
    make(shape.partitions, shape.partition_bytes);
    for (std::uint64_t round = 1; round <= 2; ++round) {
      const auto permutation = random.permutation(shape.partitions);
      const std::vector<int> order(permutation.begin(), permutation.end());
      run_epoch(order, round, round % 2 == 0 ? Awaits::kernel : Awaits::host);
    }
    free();
  }
}

}  // namespace
}  // namespace partita::test
