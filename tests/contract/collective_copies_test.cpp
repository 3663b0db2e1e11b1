// The walk of a collective while a GPU still copies: nobody waits for it, and nothing leaves before.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int summed_partitions = 3, summed_count = 5;
/// Long enough for whatever does not wait.
constexpr auto time_without_copies = std::chrono::milliseconds(50);

class CollectiveCopies : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(MPI_IN_PLACE, ints(), summed_partitions, summed_count, MPI_INT,
                                                   MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  }
  void TearDown() override { EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request_)); }

  int* ints() const { return reinterpret_cast<int*>(buffer_.data()); }
  void start_and_mark(int value) {
    for (int i = 0; i < summed_partitions * summed_count; ++i) ints()[i] = value;
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, summed_partitions - 1, request_));
  }
  bool one_has_arrived() const {
    int any = 0;
    for (int p = 0; p < summed_partitions; ++p) {
      int flag = 0;
      EXPECT_EQ(MPI_SUCCESS, Partita_Parrived(request_, p, &flag));
      any |= flag;
    }
    return any != 0;
  }
  /// How many elements have it by now, whoever writes to them.
  int count_of(int value) const {
    int count = 0;
    for (int i = 0; i < summed_partitions * summed_count; ++i) {
      count += std::atomic_ref(ints()[i]).load(std::memory_order_acquire) == value ? 1 : 0;
    }
    return count;
  }
  bool any_is(int value) const { return count_of(value) > 0; }
  bool all_are(int value) const { return count_of(value) == summed_partitions * summed_count; }
  void expect_sum(int sum) const {
    for (int i = 0; i < summed_partitions * summed_count; ++i) EXPECT_EQ(ints()[i], sum) << i;
  }

  const FakeGpuBuffer buffer_{mapped, summed_partitions * summed_count * sizeof(int)};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// In place a rank copies its share away before anything else.
TEST_F(CollectiveCopies, are_not_waited_for_by_marks_and_hold_back_what_follows) {
  for (int epoch = 1; epoch <= 3; ++epoch) {
    step("rank 0's copies are held");
    if (rank() == 0) FakeGpu::instance().hold(buffer_.data());
    harness_barrier();
    start_and_mark(epoch * (rank() + 1));
    step("nothing arrives");
    for (const auto end = std::chrono::steady_clock::now() + time_without_copies;
         std::chrono::steady_clock::now() < end;) {
      ASSERT_FALSE(one_has_arrived());
      sched_yield();
    }
    harness_barrier();
    FakeGpu::instance().hold(nullptr);
    step("the request is waited for");
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
    expect_sum(epoch * ranks() * (ranks() + 1) / 2);
  }
}

/// A reduction comes behind an arrival and behind the copy. A step of the engine's finds that both are there, and what
/// it reduces leaves; the threads of the program look at the memory alone.
TEST_F(CollectiveCopies, that_end_are_followed_by_reductions_though_nobody_calls) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "without a thread of its own the engine needs calls";
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const int sum = epoch * ranks() * (ranks() + 1) / 2;
    step("rank 0's copies are held");
    if (rank() == 0) FakeGpu::instance().hold(buffer_.data());
    harness_barrier();
    start_and_mark(epoch * (rank() + 1));
    std::this_thread::sleep_for(time_without_copies);
    EXPECT_FALSE(any_is(sum));
    harness_barrier();
    step("the sums come by themselves");
    FakeGpu::instance().hold(nullptr);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!all_are(sum) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(all_are(sum));
    step("the request is waited for");
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  }
}

}  // namespace
}  // namespace partita::test
