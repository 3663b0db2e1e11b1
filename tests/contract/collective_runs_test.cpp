// Neighbouring partitions of a collective that are ready together share its launches and its transfers, on the fake
// GPU. Nothing moves but in calls, so that the test says what is there together.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

constexpr int run_partitions = 16, run_count = 5, run_epochs = 3;

/// Two ranks; what rank 1 sends lies at rank 0 before that marks anything.
class CollectiveRuns : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_OK(Partita_Request_free(&request_));
    if (op_ != MPI_OP_NULL) MPI_Op_free(&op_);
  }

  static int* ints(const FakeGpuBuffer& buffer) { return reinterpret_cast<int*>(buffer.data()); }
  static int elements() { return run_partitions * run_count; }
  static int value(int epoch, int element, int of_rank) { return epoch * 1000 + element * (of_rank + 1); }
  void make_reduce() {
    ASSERT_OK(Partita_Preduce_init(sent_.data(), received_.data(), run_partitions, run_count, MPI_INT, MPI_SUM, 0,
                                   MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  }
  void start(int epoch) {
    for (int i = 0; i < elements(); ++i) ints(sent_)[i] = value(epoch, i, rank());
    ASSERT_OK(Partita_Start(&request_));
    ASSERT_OK(Partita_Pbuf_prepare(request_));
    // Pbuf_prepare takes steps: they must not find yet what the other rank marks behind its own.
    harness_barrier();
  }
  void mark_all() { ASSERT_OK(Partita_Pready_range(0, run_partitions - 1, request_)); }
  void wait() { ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE)); }
  /// Rank 1's sends have left, so that rank 0's next look finds them.
  void let_rank_1_send() {
    if (rank() == 1) {
      mark_all();
      wait();
    }
    harness_barrier();
  }
  /// Several epochs; in each, rank 0 calls `body` with its number once what rank 1 sends is there.
  template <class Body>
  void at_rank_0_in_each_epoch(Body body) {
    for (int epoch = 1; epoch <= run_epochs; ++epoch) {
      start(epoch);
      let_rank_1_send();
      if (rank() == 0) body(epoch);
      harness_barrier();
    }
  }
  void expect_sums(int epoch) const {
    for (int i = 0; i < elements(); ++i) {
      ASSERT_EQ(ints(received_)[i], value(epoch, i, 0) + value(epoch, i, 1)) << "element " << i;
    }
  }

  const FakeGpuBuffer sent_{mapped, run_partitions * run_count * sizeof(int)};
  const FakeGpuBuffer received_{mapped, run_partitions * run_count * sizeof(int)};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  MPI_Op op_ = MPI_OP_NULL;  ///< of the request
};

TEST_F(CollectiveRuns, are_reduced_by_one_kernel) {
  make_reduce();
  at_rank_0_in_each_epoch([&](int epoch) {
    const FakeGpu& gpu = FakeGpu::instance();
    const std::uint64_t launches = gpu.launches(), copies = gpu.copies();
    mark_all();
    EXPECT_EQ(gpu.launches() - launches, 1U) << "one reduction";
    EXPECT_EQ(gpu.copies() - copies, 1U) << "one copy of the own share";
    wait();
    EXPECT_EQ(gpu.launches() - launches, 1U);
    expect_sums(epoch);
  });
}

/// Runs end where a neighbour is missing, and begin again behind it.
TEST_F(CollectiveRuns, do_not_wait_for_a_neighbour_that_is_late) {
  constexpr int late = 6;
  make_reduce();
  at_rank_0_in_each_epoch([&](int epoch) {
    const FakeGpu& gpu = FakeGpu::instance();
    const std::uint64_t launches = gpu.launches();
    ASSERT_OK(Partita_Pready_range(0, late - 1, request_));
    EXPECT_EQ(gpu.launches() - launches, 1U);
    ASSERT_OK(Partita_Pready_range(late + 1, run_partitions - 1, request_));
    EXPECT_EQ(gpu.launches() - launches, 2U);
    for (int p = 0; p < run_partitions; ++p) {
      if (p == late) continue;
      for (int flag = 0; flag == 0;) ASSERT_OK(Partita_Parrived(request_, p, &flag));
    }
    int flag = 0;
    ASSERT_OK(Partita_Parrived(request_, late, &flag));
    EXPECT_EQ(flag, 0);
    ASSERT_OK(Partita_Pready(late, request_));
    EXPECT_EQ(gpu.launches() - launches, 3U);
    wait();
    expect_sums(epoch);
  });
}

/// The engine finds all marks at once, whatever their order.
TEST_F(CollectiveRuns, of_what_kernels_have_marked_are_reduced_by_one_kernel) {
  make_reduce();
  MPIX_Prequest device{};
  if (rank() == 0) {
    ASSERT_OK(Partita_Prequest_create(&device, request_));
  }
  Random random(job_seed());
  at_rank_0_in_each_epoch([&](int epoch) {
    const FakeGpu& gpu = FakeGpu::instance();
    const std::uint64_t launches = gpu.launches();
    std::thread kernel([&] {
      for (const int p : random.permutation(run_partitions)) {
        EXPECT_EQ(MPIX_Pready(p, device), PARTITA_DEVICE_SUCCESS);
      }
    });
    kernel.join();
    wait();
    EXPECT_EQ(gpu.launches() - launches, 1U);
    expect_sums(epoch);
  });
  if (rank() == 0) {
    EXPECT_OK(Partita_Prequest_free(&device));
  }
}

std::vector<int> reduced_counts;

void add_and_count(void* in, void* inout, int* count, MPI_Datatype*) {
  reduced_counts.push_back(*count);
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

/// The MPI's reductions may have other bits where the elements have other neighbours: what happens to be ready together
/// must not decide that.
TEST_F(CollectiveRuns, in_host_memory_are_reduced_partition_by_partition) {
  MPI_Op_create(add_and_count, 1, &op_);
  std::vector<int> sent(static_cast<std::size_t>(elements())), received(sent.size());
  ASSERT_OK(Partita_Preduce_init(sent.data(), received.data(), run_partitions, run_count, MPI_INT, op_, 0,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  for (int epoch = 1; epoch <= run_epochs; ++epoch) {
    for (int i = 0; i < elements(); ++i) sent[static_cast<std::size_t>(i)] = value(epoch, i, rank());
    start(epoch);
    let_rank_1_send();
    if (rank() == 0) {
      reduced_counts.clear();
      mark_all();
      EXPECT_EQ(reduced_counts, std::vector<int>(run_partitions, run_count));
      wait();
      for (int i = 0; i < elements(); ++i) {
        ASSERT_EQ(received[static_cast<std::size_t>(i)], value(epoch, i, 0) + value(epoch, i, 1)) << "element " << i;
      }
    }
    harness_barrier();
  }
}

TEST_F(CollectiveRuns, travel_as_one_transfer) {
  ASSERT_OK(Partita_Pbcast_init(sent_.data(), run_partitions, run_count, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request_));
  for (int epoch = 1; epoch <= run_epochs; ++epoch) {
    start(epoch);
    if (rank() == 0) {
      const FakeGpu& gpu = FakeGpu::instance();
      const std::uint64_t copies = gpu.copies();
      mark_all();
      EXPECT_EQ(gpu.copies() - copies, 1U);
    }
    wait();
    for (int i = 0; i < elements(); ++i) ASSERT_EQ(ints(sent_)[i], value(epoch, i, 0)) << "element " << i;
    harness_barrier();
  }
}

/// Every second number is sent: packed at one end, unpacked at the other.
TEST_F(CollectiveRuns, with_gaps_are_packed_by_one_kernel) {
  const FakeGpuBuffer gapped(mapped, 2 * run_partitions * run_count * sizeof(int));
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
  MPI_Type_commit(&type);
  ASSERT_OK(
      Partita_Pbcast_init(gapped.data(), run_partitions, run_count, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  for (int epoch = 1; epoch <= run_epochs; ++epoch) {
    for (int i = 0; i < 2 * elements(); ++i) ints(gapped)[i] = rank() == 0 ? epoch * 1000 + i : -epoch;
    start(epoch);
    const FakeGpu& gpu = FakeGpu::instance();
    const std::uint64_t launches = gpu.launches();
    if (rank() == 0) {
      mark_all();
      EXPECT_EQ(gpu.launches() - launches, 1U);
      wait();
    }
    harness_barrier();
    if (rank() == 1) {
      wait();
      EXPECT_EQ(gpu.launches() - launches, 1U);
    }
    for (int i = 0; i < 2 * elements(); ++i) {
      ASSERT_EQ(ints(gapped)[i], rank() == 0 || i % 2 == 0 ? epoch * 1000 + i : -epoch) << "number " << i;
    }
    harness_barrier();
  }
  MPI_Type_free(&type);
}

}  // namespace
}  // namespace partita::test
