// A partitioned collective that cannot end: every rank hears of it, and the next one on the communicator works.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// Barriers stand before waits of all ranks, which begin together: no rank's time limit runs out while another one that
/// the system has not let run still starts and marks.
class CollectiveTimeout : public testing::Test {
 protected:
  void make() {
    ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(in_.data(), out_.data(), 4, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                                   MPI_INFO_NULL, &request_));
  }
  /// Without a limit, as far as steps lead.
  static void take_all_steps() {
    for (int pending = 1; pending != 0; sched_yield()) ASSERT_EQ(MPI_SUCCESS, Partita_Progress(&pending));
  }
  void expect_a_good_epoch() {
    out_.assign(out_.size(), -1);
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 3, request_));
    take_all_steps();
    harness_barrier();
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(8, ranks()), out_);
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> in_ = std::vector<int>(8, 1);
  std::vector<int> out_ = std::vector<int>(8, -1);
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(CollectiveTimeout, a_partition_that_one_rank_never_marks_ends_the_epoch_on_all) {
  make();
  expect_a_good_epoch();
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
  for (int p = 0; p < 4; ++p) {
    if (rank() == 0 && p == 2) continue;
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready(p, request_));
  }
  harness_barrier();
  EXPECT_ERROR(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "allreduce of", "algorithm",
               "1 not through (2)");
  // What is given up stays so, and says so.
  EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST);
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  harness_barrier();
  make();
  expect_a_good_epoch();
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

TEST_F(CollectiveTimeout, a_rank_that_never_makes_its_request_is_named) {
  if (rank() != ranks() - 1) {
    make();
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 3, request_));
    const int code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    if (ranks() == 2) {
      EXPECT_ERROR(code, MPI_ERR_OTHER, "rank 1", "has not made its request");
    } else {
      EXPECT_NE(MPI_SUCCESS, code);
    }
  }
  harness_barrier();
  // It comes after all, and hears that the others have given up.
  if (rank() == ranks() - 1) {
    make();
    int code = Partita_Start(&request_);
    if (code == MPI_SUCCESS) {
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 3, request_));
      code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    }
    EXPECT_NE(MPI_SUCCESS, code);
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  harness_barrier();
  make();
  expect_a_good_epoch();
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

}  // namespace
}  // namespace partita::test
