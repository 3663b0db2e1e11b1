// Many partitions in GPU memory that leave together, marked by the host or handed over by kernels: the copy engine
// makes a few operations of them, and each one is announced behind its bytes. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <cstdint>
#include <partita/device.cuh>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

constexpr int run_partitions = 3000;
constexpr std::int64_t run_partition_bytes = 1024, run_bytes = run_partitions * run_partition_bytes;

/// Rank 0 sends to rank 1.
class DeviceRuns : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_gpu_copy", "engine");
    PMPI_Info_set(info, "partita_link", "direct");
    const int code = sends() ? Partita_Psend_init(buffer_.data(), run_partitions, run_partition_bytes, MPI_BYTE, 1, 2,
                                                  MPI_COMM_WORLD, info, &request_)
                             : Partita_Precv_init(buffer_.data(), run_partitions, run_partition_bytes, MPI_BYTE, 0, 2,
                                                  MPI_COMM_WORLD, info, &request_);
    PMPI_Info_free(&info);
    ASSERT_EQ(code, MPI_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }

  bool sends() const { return rank() == 0; }
  void fill(std::uint64_t epoch) const { write_pattern(buffer_.data(), epoch, 0, run_bytes); }
  void start() { ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS); }
  void wait() { ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS); }
  /// Both ranks have opened the epoch, so that marks leave at once.
  void open() {
    start();
    if (sends()) {
      ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
    }
    harness_barrier();
  }
  bool has_arrived(int partition) const {
    int flag = 0;
    EXPECT_EQ(Partita_Parrived(request_, partition, &flag), MPI_SUCCESS);
    return flag != 0;
  }
  void expect_partition(std::uint64_t epoch, int partition) const {
    const std::int64_t first = partition * run_partition_bytes, end = first + run_partition_bytes;
    ASSERT_EQ(first_off_pattern(buffer_.data() + first, epoch, first, end), end) << "partition " << partition;
  }
  void expect_all(std::uint64_t epoch) const {
    ASSERT_EQ(first_off_pattern(buffer_.data(), epoch, 0, run_bytes), run_bytes) << "epoch " << epoch;
  }

  const FakeGpuBuffer buffer_{mapped, run_bytes};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// A copy, the front, which counts all, in each of the receiver's memories, and the sender's own word.
TEST_F(DeviceRuns, partitions_marked_in_one_call_take_as_few_operations_as_one) {
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    step("epoch " + std::to_string(epoch));
    if (sends()) fill(epoch);
    open();
    const std::uint64_t before = FakeGpu::instance().operations();
    if (sends()) {
      ASSERT_EQ(Partita_Pready_range(0, run_partitions - 1, request_), MPI_SUCCESS);
    }
    wait();
    if (sends()) {
      EXPECT_EQ(FakeGpu::instance().operations() - before, 4U);
    } else {
      expect_all(epoch);
    }
  }
}

/// Runs of 1 to 40, in any order; what has arrived is there, and nothing else has.
TEST_F(DeviceRuns, runs_of_any_length_arrive_behind_their_bytes_in_any_order) {
  Random random(job_seed());
  for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
    step("epoch " + std::to_string(epoch));
    if (sends()) fill(epoch);
    open();
    if (sends()) {
      std::vector<std::pair<int, int>> runs;
      for (int first = 0; first < run_partitions;) {
        const int end = std::min<int>(run_partitions, first + random.integer(1, 40));
        runs.emplace_back(first, end - 1);
        first = end;
      }
      random.shuffle(runs);
      for (const auto& [first, last] : runs) ASSERT_EQ(Partita_Pready_range(first, last, request_), MPI_SUCCESS);
    } else {
      for (int seen = 0; seen < run_partitions;) {
        seen = 0;
        for (int p = 0; p < run_partitions; ++p) {
          if (!has_arrived(p)) continue;
          ++seen;
          expect_partition(epoch, p);
        }
      }
    }
    wait();
    if (!sends()) expect_all(epoch);
  }
}

/// While two copies are held, what kernels hand over waits, and then leaves together.
TEST_F(DeviceRuns, what_kernels_mark_while_the_copy_engine_is_busy_leaves_together) {
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    step("epoch " + std::to_string(epoch));
    if (sends()) fill(epoch);
    open();
    if (sends()) {
      FakeGpu::instance().hold_all(true);  // however slowly the kernel marks, the engine stays busy
      const std::uint64_t before = FakeGpu::instance().operations();
      std::thread kernel([&] {
        for (int p = 0; p < run_partitions; ++p) {
          EXPECT_EQ(MPIX_Pready(p, device), PARTITA_DEVICE_SUCCESS);
          if (p < 64) std::this_thread::yield();
        }
        FakeGpu::instance().hold_all(false);
      });
      wait();
      kernel.join();
      const std::uint64_t used = FakeGpu::instance().operations() - before;
      EXPECT_LT(used, static_cast<std::uint64_t>(run_partitions)) << "of " << run_partitions << " partitions";
    } else {
      wait();
      expect_all(epoch);
    }
    harness_barrier();
  }
  ASSERT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
