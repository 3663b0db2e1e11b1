// Partitioned collectives by the names of the papers, on requests that every call of MPI takes.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <array>
#include <vector>

#include "support/job.hpp"

namespace partita::test {
namespace {

TEST(DropinCollectives, complete_beside_requests_of_the_mpi) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::vector<int> mine(8, rank() + 1), sums(8, -1);
  int out = rank(), in = -1;
  std::array<MPI_Request, 3> requests{};
  ASSERT_EQ(MPI_SUCCESS, MPIX_Pallreduce_init(mine.data(), sums.data(), 4, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                              MPI_INFO_NULL, &requests[0]));
  ASSERT_EQ(MPI_SUCCESS, MPI_Send_init(&out, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[1]));
  ASSERT_EQ(MPI_SUCCESS, MPI_Recv_init(&in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[2]));
  for (int epoch = 0; epoch < 3; ++epoch) {
    in = -1;
    sums.assign(sums.size(), -1);
    ASSERT_EQ(MPI_SUCCESS, MPI_Startall(3, requests.data()));
    ASSERT_EQ(MPI_SUCCESS, MPIX_Pbuf_prepare(requests[0]));
    ASSERT_EQ(MPI_SUCCESS, MPI_Pready_range(0, 3, requests[0]));
    if (epoch == 0) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
    } else if (epoch == 1) {
      for (int done = 0; done == 0;) {
        ASSERT_EQ(MPI_SUCCESS, MPI_Testall(3, requests.data(), &done, MPI_STATUSES_IGNORE));
      }
    } else {
      for (int left_over = 3; left_over > 0; --left_over) {
        int index = -1;
        ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(3, requests.data(), &index, MPI_STATUS_IGNORE));
      }
    }
    EXPECT_EQ(left, in);
    EXPECT_EQ(std::vector<int>(8, ranks() * (ranks() + 1) / 2), sums);
  }
  for (MPI_Request& request : requests) ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
}

/// Each of the names, with one element in two partitions and nothing of interest in it.
TEST(DropinCollectives, have_all_their_names) {
  const auto size = static_cast<std::size_t>(ranks());
  std::vector<int> s(4 * size, 1), r(4 * size, -1);
  const std::vector<MPI_Count> counts(size, 1);
  std::vector<MPI_Aint> places, bytes;
  for (std::size_t i = 0; i < size; ++i) places.push_back(static_cast<MPI_Aint>(2 * i));
  for (const MPI_Aint place : places) bytes.push_back(place * static_cast<MPI_Aint>(sizeof(int)));
  const std::vector<MPI_Datatype> types(size, MPI_INT);
  MPI_Comm ring = MPI_COMM_NULL;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &ring);
  const MPI_Comm world = MPI_COMM_WORLD;
  const MPI_Info none = MPI_INFO_NULL;
  std::array<MPI_Request, 21> q{};
  int n = 0;
  const auto made = [&](int code) { ASSERT_EQ(MPI_SUCCESS, code) << "the call of number " << n - 1; };
  const auto next = [&] { return &q[static_cast<std::size_t>(n++)]; };
  // Nothing is started: the requests are only made, and take the calls of MPI.
  made(MPIX_Pbcast_init(s.data(), 2, 1, MPI_INT, 0, world, none, next()));
  made(MPIX_Pgather_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, 0, world, none, next()));
  made(MPIX_Pgatherv_init(s.data(), 2, 1, MPI_INT, r.data(), counts.data(), places.data(), MPI_INT, 0, world, none,
                          next()));
  made(MPIX_Pscatter_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, 0, world, none, next()));
  made(MPIX_Pscatterv_init(s.data(), 2, counts.data(), places.data(), MPI_INT, r.data(), 1, MPI_INT, 0, world, none,
                           next()));
  made(MPIX_Pallgather_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, world, none, next()));
  made(MPIX_Pallgatherv_init(s.data(), 2, 1, MPI_INT, r.data(), counts.data(), places.data(), MPI_INT, world, none,
                             next()));
  made(MPIX_Palltoall_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, world, none, next()));
  made(MPIX_Palltoallv_init(s.data(), 2, counts.data(), places.data(), MPI_INT, r.data(), counts.data(), places.data(),
                            MPI_INT, world, none, next()));
  made(MPIX_Palltoallw_init(s.data(), 2, counts.data(), bytes.data(), types.data(), r.data(), counts.data(),
                            bytes.data(), types.data(), world, none, next()));
  made(MPIX_Preduce_init(s.data(), r.data(), 2, 1, MPI_INT, MPI_SUM, 0, world, none, next()));
  made(MPIX_Pallreduce_init(s.data(), r.data(), 2, 1, MPI_INT, MPI_SUM, world, none, next()));
  made(MPIX_Preduce_scatter_init(s.data(), r.data(), 2, counts.data(), MPI_INT, MPI_SUM, world, none, next()));
  made(MPIX_Preduce_scatter_block_init(s.data(), r.data(), 2, 1, MPI_INT, MPI_SUM, world, none, next()));
  made(MPIX_Pscan_init(s.data(), r.data(), 2, 1, MPI_INT, MPI_SUM, world, none, next()));
  made(MPIX_Pexscan_init(s.data(), r.data(), 2, 1, MPI_INT, MPI_SUM, world, none, next()));
  made(MPIX_Pneighbor_allgather_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, ring, none, next()));
  made(MPIX_Pneighbor_allgatherv_init(s.data(), 2, 1, MPI_INT, r.data(), counts.data(), places.data(), MPI_INT, ring,
                                      none, next()));
  made(MPIX_Pneighbor_alltoall_init(s.data(), 2, 1, MPI_INT, r.data(), 1, MPI_INT, ring, none, next()));
  made(MPIX_Pneighbor_alltoallv_init(s.data(), 2, counts.data(), places.data(), MPI_INT, r.data(), counts.data(),
                                     places.data(), MPI_INT, ring, none, next()));
  made(MPIX_Pneighbor_alltoallw_init(s.data(), 2, counts.data(), bytes.data(), types.data(), r.data(), counts.data(),
                                     bytes.data(), types.data(), ring, none, next()));
  ASSERT_EQ(21, n);
  for (MPI_Request& request : q) ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
  MPI_Comm_free(&ring);
}

}  // namespace
}  // namespace partita::test
