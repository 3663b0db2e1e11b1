// The walk of a collective while a GPU still copies: nobody waits for it, and nothing leaves before.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <chrono>

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

}  // namespace
}  // namespace partita::test
