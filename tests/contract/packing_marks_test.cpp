// Marks of a send in GPU memory whose datatype has gaps, while the GPU still packs: nobody waits for it, and nothing
// leaves before.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <chrono>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int packed_partitions = 4, packed_count = 3;
/// Every second one moves.
constexpr int ints_in_memory = 2 * packed_partitions * packed_count;
constexpr auto time_without_marks = std::chrono::milliseconds(50);

/// From rank 0 to rank 1, both in GPU memory.
class PackingMarks : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Datatype padded = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &padded);
    MPI_Type_commit(&padded);
    if (rank() == 0) {
      ASSERT_OK(Partita_Psend_init(buffer_.data(), packed_partitions, packed_count, padded, 1, 3, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &request_));
    } else {
      ASSERT_OK(Partita_Precv_init(buffer_.data(), packed_partitions, packed_count, padded, 0, 3, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &request_));
    }
    MPI_Type_free(&padded);
  }
  void TearDown() override { EXPECT_OK(Partita_Request_free(&request_)); }

  int* ints() const { return reinterpret_cast<int*>(buffer_.data()); }
  int flags_set() const {
    int all = 0;
    for (int p = 0; p < packed_partitions; ++p) {
      int flag = 0;
      EXPECT_OK(Partita_Parrived(request_, p, &flag));
      all += flag;
    }
    return all;
  }

  const FakeGpuBuffer buffer_{mapped, ints_in_memory * sizeof(int)};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(PackingMarks, return_and_hold_back_what_follows) {
  for (int epoch = 1; epoch <= 3; ++epoch) {
    for (int i = 0; i < ints_in_memory; ++i) ints()[i] = rank() == 0 ? epoch * 100 + i : -1;
    step("rank 0's GPU is held");
    if (rank() == 0) FakeGpu::instance().hold(buffer_.data());
    ASSERT_OK(Partita_Start(&request_));
    // The kernels run one after the other, and the first one is held.
    if (rank() == 0) {
      ASSERT_OK(Partita_Pready_range(0, packed_partitions - 1, request_));
    }
    harness_barrier();
    step("nothing arrives");
    for (const auto end = std::chrono::steady_clock::now() + time_without_marks;
         std::chrono::steady_clock::now() < end;) {
      if (rank() == 1) {
        ASSERT_EQ(flags_set(), 0);
      }
      sched_yield();
    }
    if (rank() == 0) {
      int flag = 1;
      ASSERT_OK(Partita_Test(&request_, &flag, MPI_STATUS_IGNORE));
      EXPECT_EQ(flag, 0) << "the buffer is still read";
    }
    harness_barrier();
    FakeGpu::instance().hold(nullptr);
    step("the request is waited for");
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    for (int i = 0; i < ints_in_memory && rank() == 1; ++i)
      EXPECT_EQ(ints()[i], i % 2 == 0 ? epoch * 100 + i : -1) << i;
  }
}

TEST_F(PackingMarks, fail_on_both_sides_where_the_gpu_works_no_longer) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  step("an epoch connects the two: what fails next is the packing");
  ASSERT_OK(Partita_Start(&request_));
  if (rank() == 0) {
    ASSERT_OK(Partita_Pready_range(0, packed_partitions - 1, request_));
  }
  ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  step("the GPU fails");
  ASSERT_OK(Partita_Start(&request_));
  harness_barrier();
  if (rank() == 0) {
    FakeGpu::instance().fail(mapped);
    EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_OTHER, "Pready", "illegal access");
    EXPECT_ERROR(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "illegal access");
  } else {
    EXPECT_ERROR(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "rank 0, could not pack",
                 "illegal access");
  }
  FakeGpu::instance().mend(mapped);
}

}  // namespace
}  // namespace partita::test
