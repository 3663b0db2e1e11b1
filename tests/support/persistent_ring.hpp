// Ordinary persistent requests of the C API between neighbours.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {

/// Each rank sends to its right neighbour and receives from its left one.
class PersistentRing : public testing::Test {
 protected:
  static int right() { return (rank() + 1) % ranks(); }
  static int left() { return (rank() + ranks() - 1) % ranks(); }

  static Partita_Request receive(std::vector<int>& data, int tag) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Recv_init(data.data(), static_cast<MPI_Count>(data.size()), MPI_INT, left(), tag, MPI_COMM_WORLD,
                                &made));
    return made;
  }
};

}  // namespace partita::test
