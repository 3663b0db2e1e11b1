// A partitioned message that crosses a blocking call of its sender, which the progress rule lets end (MPI-4,
// section 2.9).
#pragma once

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "dropin_ring.hpp"

namespace partita::test {

/// A partitioned message from rank 0 to rank 1 that rank 1 waits for before it enters the blocking call in which rank 0
/// is.
class Crossing : public testing::TestWithParam<int> {
 protected:
  /// Rank 0 marks, then `block`s, then waits; rank 1 waits, then `block`s. Must end.
  template <class Block>
  void cross(Block block) {
    const std::vector<char> sent(static_cast<std::size_t>(GetParam()), 'p');
    std::vector<char> data(sent.size(), rank() == 0 ? 'p' : '-');
    MPI_Request request = MPI_REQUEST_NULL;
    constexpr int partitions = 4;
    if (rank() == 0) {
      MPI_Psend_init(data.data(), partitions, GetParam() / partitions, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
    } else if (rank() == 1) {
      MPI_Precv_init(data.data(), partitions, GetParam() / partitions, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
    }
    for (int epoch = 0; epoch < 3; ++epoch) {
      if (rank() == 0) {
        step("rank 0 starts and marks");
        MPI_Start(&request);
        for (int partition = 0; partition < partitions; ++partition) MPI_Pready(partition, request);
        step("rank 0 blocks");
        block();
        step("rank 0 waits");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        if (rank() == 1) {
          step("rank 1 starts and waits");
          MPI_Start(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          ASSERT_TRUE(data == sent) << "epoch " << epoch;
          data.assign(data.size(), '-');
        }
        step("the others block");
        block();
      }
    }
    if (request != MPI_REQUEST_NULL) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
    }
  }

  /// Rank 0 marks, then `block`s until rank 1 does `release`. Rank 1 makes its request only when rank 0 is in `block`,
  /// and releases when it has the message. Must end.
  template <class Block, class Release>
  void cross_while_held(Block block, Release release) {
    const std::vector<char> sent(static_cast<std::size_t>(GetParam()), 'p');
    std::vector<char> data(sent.size(), rank() == 0 ? 'p' : '-');
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0) {
      MPI_Psend_init(data.data(), 1, GetParam(), MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      MPI_Pready(0, request);
      harness_barrier();
      step("rank 0 blocks");
      block();
      step("rank 0 waits");
    } else {
      harness_barrier();
      if (rank() != 1) return harness_barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      MPI_Precv_init(data.data(), 1, GetParam(), MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      step("rank 1 waits");
    }
    ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_TRUE(data == sent);
    ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
    if (rank() == 1) {
      step("rank 1 releases");
      release();
    }
    harness_barrier();
  }
};

}  // namespace partita::test
