// What the status of a message of integers tells.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include "support/face.hpp"

namespace partita::test {

inline int count_of(const MPI_Status& status) {
  int count = 0;
  EXPECT_OK(MPI_Get_count(&status, MPI_INT, &count));
  return count;
}

inline void expect_from(const MPI_Status& status, int source, int tag, int count) {
  EXPECT_EQ(status.MPI_SOURCE, source);
  EXPECT_EQ(status.MPI_TAG, tag);
  EXPECT_EQ(count_of(status), count);
}

}  // namespace partita::test
