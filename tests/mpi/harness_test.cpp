// The harness itself: what all the other suites stand on.
#include <gtest/gtest.h>
#include <mpi.h>

#include "support/job.hpp"

namespace partita::test {
namespace {

TEST(Harness, every_rank_takes_part) {
  int present = 1;
  PMPI_Allreduce(MPI_IN_PLACE, &present, 1, MPI_INT, MPI_SUM, harness_comm());
  EXPECT_EQ(present, ranks());
  EXPECT_GE(rank(), 0);
  EXPECT_LT(rank(), ranks());
}

TEST(Harness, rank_zero_decides_for_all) {
  EXPECT_EQ(from_rank_zero(rank() == 0 ? 77 : 1), 77U);
}

TEST(Harness, the_thread_level_is_the_one_asked_for) {
  EXPECT_EQ(thread_level(), MPI_THREAD_MULTIPLE);
}

}  // namespace
}  // namespace partita::test
