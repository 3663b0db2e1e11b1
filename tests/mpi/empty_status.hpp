// The status that null and inactive requests have.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

namespace partita::test {

/// The empty status of MPI-4, section 3.7.3. Its error field is set by calls on arrays alone.
inline void expect_empty(const MPI_Status& status) {
  EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
  EXPECT_EQ(status.MPI_TAG, MPI_ANY_TAG);
  int count = -1, cancelled = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  MPI_Test_cancelled(&status, &cancelled);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cancelled, 0);
}

}  // namespace partita::test
