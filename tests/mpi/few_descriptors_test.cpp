// Many ranks of a node under a low limit of descriptors, which the kernel also counts per user while they travel: all
// pairs are matched although half of the ranks sit in a barrier meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int partitions = 2;
constexpr int count = 20000;  // of a size that moves within the receiver's memory

/// The limit below which `spare` numbers are free.
int limit_with_spare(int spare) {
  int limit = 0;
  for (; spare > 0; ++limit) spare -= ::fcntl(limit, F_GETFD) == -1 ? 1 : 0;
  return limit;
}

/// Leaves this process `spare` descriptors more than it has open.
class FewDescriptors {
 public:
  explicit FewDescriptors(int spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(limit_with_spare(spare));
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// One buffer of shared memory a peer and direction, each in a segment of its own or not, as Partita likes.
struct Pair {
  void* out = nullptr;
  void* in = nullptr;
  Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};

  explicit Pair(int peer) {
    EXPECT_EQ(Partita_Alloc(partitions * count, MPI_INFO_NULL, &out), MPI_SUCCESS);
    EXPECT_EQ(Partita_Alloc(partitions * count, MPI_INFO_NULL, &in), MPI_SUCCESS);
    EXPECT_EQ(
        Partita_Psend_init(out, partitions, count, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]),
        MPI_SUCCESS);
    EXPECT_EQ(Partita_Precv_init(in, partitions, count, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]),
              MPI_SUCCESS);
  }
  void send_and_receive(int me, int peer) {
    static_cast<char*>(out)[partitions * count - 1] = static_cast<char>(10 * me + peer);
    EXPECT_EQ(Partita_Startall(2, requests), MPI_SUCCESS);
    EXPECT_EQ(Partita_Pready_range(0, partitions - 1, requests[0]), MPI_SUCCESS);
  }
  void expect_from(int peer, int me) {
    EXPECT_EQ(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(static_cast<char*>(in)[partitions * count - 1], static_cast<char>(10 * peer + me));
    for (Partita_Request& request : requests) EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  }
};

TEST(FewDescriptors, all_pairs_of_a_node_are_matched_while_half_of_it_sits_in_a_barrier) {
  // The MPI's own connections are there before the limit is.
  std::vector<int> all(static_cast<std::size_t>(ranks())), from_all(all.size());
  MPI_Alltoall(all.data(), 1, MPI_INT, from_all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  step("making the requests");
  const FewDescriptors few(6);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int peer = 0; peer < ranks(); ++peer) pairs.push_back(std::make_unique<Pair>(peer));
  step("the barrier");
  if (rank() % 2 == 1) MPI_Barrier(MPI_COMM_WORLD);
  for (int peer = 0; peer < ranks(); ++peer) pairs[static_cast<std::size_t>(peer)]->send_and_receive(rank(), peer);
  step("waiting");
  for (int peer = 0; rank() % 2 == 0 && peer < ranks(); peer += 2) {  // the others come when this rank does
    int flag = 0;
    while (flag == 0) {
      EXPECT_EQ(Partita_Parrived(pairs[static_cast<std::size_t>(peer)]->requests[1], 0, &flag), MPI_SUCCESS);
    }
  }
  if (rank() % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
  for (int peer = 0; peer < ranks(); ++peer) pairs[static_cast<std::size_t>(peer)]->expect_from(peer, rank());
  harness_barrier();
  for (const auto& pair : pairs) {
    EXPECT_EQ(Partita_Free(pair->in), MPI_SUCCESS);
    EXPECT_EQ(Partita_Free(pair->out), MPI_SUCCESS);
  }
}

}  // namespace
}  // namespace partita::test
