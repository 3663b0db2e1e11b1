// Descriptors of shared memory that nobody maps, since the requests are freed before they match: more than a socket's
// queue takes. They keep nothing else from being matched.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int pairs = 40;

/// A receive in memory that no other one lies in.
struct OwnReceive {
  void* memory = nullptr;
  Partita_Request request = PARTITA_REQUEST_NULL;

  explicit OwnReceive(int tag) {
    constexpr int size_bytes = 100000;
    EXPECT_EQ(Partita_Alloc(size_bytes, MPI_INFO_NULL, &memory), MPI_SUCCESS);
    EXPECT_EQ(Partita_Precv_init(memory, 1, size_bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
              MPI_SUCCESS);
  }
};

void make_and_free_a_send(int tag) {
  static char buffer[100000];
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_EQ(Partita_Psend_init(buffer, 1, sizeof buffer, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
}

/// A pair that has nothing to do with what was before.
void expect_a_transfer() {
  step("a transfer after descriptors that nobody mapped");
  if (rank() == 0) {
    Sending<CFace> send;
    send.init(4, 100, 1, 1000);
    send.start();
    send.mark_all(1);
    send.wait();
    send.free();
  } else {
    Receiving<CFace> recv;
    recv.init(4, 100, 0, 1000);
    recv.start();
    recv.wait_for(1);
    recv.free();
  }
}

TEST(UnusedDescriptors, of_requests_freed_at_once_hold_up_no_other_request) {
  std::vector<OwnReceive> receives;
  for (int i = 0; i < pairs; ++i) {
    if (rank() == 0) make_and_free_a_send(i);
    harness_barrier();
    if (rank() == 1) {
      auto& receive = receives.emplace_back(i);
      EXPECT_EQ(Partita_Request_free(&receive.request), MPI_SUCCESS);
    }
  }
  expect_a_transfer();
  harness_barrier();
  for (auto& receive : receives) EXPECT_EQ(Partita_Free(receive.memory), MPI_SUCCESS);
}

TEST(UnusedDescriptors, of_sends_freed_before_they_match_hold_up_no_other_request) {
  for (int i = 0; i < pairs && rank() == 0; ++i) make_and_free_a_send(i);
  harness_barrier();
  std::vector<OwnReceive> receives;
  for (int i = 0; i < pairs && rank() == 1; ++i) receives.emplace_back(i);
  expect_a_transfer();
  harness_barrier();
  for (auto& receive : receives) EXPECT_EQ(Partita_Request_free(&receive.request), MPI_SUCCESS);
  for (auto& receive : receives) EXPECT_EQ(Partita_Free(receive.memory), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
