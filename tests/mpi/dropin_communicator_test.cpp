// Partitioned requests on communicators of every constructor (MPI-4, sections 7.4, 7.6 and 8.5).
#include <array>

#include "dropin_ring.hpp"

namespace partita::test {
namespace {

/// A partitioned message goes around `comm`, on which this rank may not be.
void expect_to_carry(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  Ring ring(4, 10, comm);
  for (int epoch = 0; epoch < 2; ++epoch) {
    ring.start();
    ring.mark_all();
    ring.finish();
    ring.expect_arrived();
  }
}

void expect_to_carry_and_free(MPI_Comm comm) {
  expect_to_carry(comm);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

TEST(DropinCommunicator, world_and_self_carry) {
  expect_to_carry(MPI_COMM_WORLD);
  expect_to_carry(MPI_COMM_SELF);
}

TEST(DropinCommunicator, duplicates_carry) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_Comm of_duplicate = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &of_duplicate));
  expect_to_carry_and_free(of_duplicate);
  expect_to_carry_and_free(comm);
}

TEST(DropinCommunicator, of_idup_carries_once_it_is_complete) {
  for (int round = 0; round < 5; ++round) {
    std::array comms = {MPI_COMM_NULL, MPI_COMM_NULL};
    std::array requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_idup(MPI_COMM_WORLD, &comms[0], &requests[0]));
#if MPI_VERSION >= 4
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comms[1], &requests[1]));
#else
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_idup(MPI_COMM_WORLD, &comms[1], &requests[1]));
#endif
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    for (const MPI_Comm comm : comms) expect_to_carry_and_free(comm);
  }
}

TEST(DropinCommunicator, splits_carry_and_ranks_left_out_still_agree) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, -rank(), &comm));
  expect_to_carry_and_free(comm);
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_split(MPI_COMM_WORLD, rank() == 0 ? MPI_UNDEFINED : 1, 0, &comm));
  EXPECT_EQ(rank() == 0, comm == MPI_COMM_NULL);
  expect_to_carry_and_free(comm);
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
  expect_to_carry_and_free(comm);
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  expect_to_carry_and_free(comm);
}

/// All ranks but the last one, or the only one.
MPI_Group group_without_last() {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  const int last = ranks() - 1;
  MPI_Group_excl(all, ranks() > 1 ? 1 : 0, &last, &some);
  MPI_Group_free(&all);
  return some;
}

TEST(DropinCommunicator, of_create_and_create_group_carry) {
  MPI_Group group = group_without_last();
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
  expect_to_carry_and_free(comm);
  comm = MPI_COMM_NULL;
  if (ranks() == 1 || rank() < ranks() - 1) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_create_group(MPI_COMM_WORLD, group, 1, &comm));
  }
  expect_to_carry_and_free(comm);
  MPI_Group_free(&group);
  // The rank that took no part in create_group agrees with the others about the next one.
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  expect_to_carry_and_free(comm);
}

TEST(DropinCommunicator, topologies_carry) {
  const int extent = ranks();
  const int periodic = 1;
  MPI_Comm cart = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Cart_create(MPI_COMM_WORLD, 1, &extent, &periodic, 0, &cart));
  const int keep = 1;
  MPI_Comm line = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Cart_sub(cart, &keep, &line));
  expect_to_carry_and_free(line);
  expect_to_carry_and_free(cart);

  std::vector<int> index;
  std::vector<int> edges;
  for (int i = 0; i < ranks(); ++i) {
    edges.push_back((i + 1) % ranks());
    index.push_back(static_cast<int>(edges.size()));
  }
  MPI_Comm graph = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Graph_create(MPI_COMM_WORLD, ranks(), index.data(), edges.data(), 0, &graph));
  expect_to_carry_and_free(graph);

  const int from = (rank() + ranks() - 1) % ranks();
  const int to = (rank() + 1) % ranks();
  const int own = rank();
  const int one = 1;
  ASSERT_EQ(MPI_SUCCESS, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to,
                                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
  expect_to_carry_and_free(graph);
  ASSERT_EQ(MPI_SUCCESS,
            MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &own, &one, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
  expect_to_carry_and_free(graph);
}

TEST(DropinCommunicator, intercommunicators_carry_between_their_groups) {
  if (ranks() < 2) GTEST_SKIP() << "needs two groups of ranks";
  MPI_Comm half = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, 0, &half));
  MPI_Comm inter = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank() % 2, 2, &inter));

  int own = 0;
  int others = 0;
  MPI_Comm_rank(half, &own);
  MPI_Comm_remote_size(inter, &others);
  if (own < others) {
    int out = rank();
    int in = -1;
    std::array requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Psend_init(&out, 1, 1, MPI_INT, own, 0, inter, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(&in, 1, 1, MPI_INT, own, 0, inter, MPI_INFO_NULL, &requests[1]);
    ASSERT_EQ(MPI_SUCCESS, MPI_Startall(2, requests.data()));
    ASSERT_EQ(MPI_SUCCESS, MPI_Pready(0, requests[0]));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(rank() % 2 == 0 ? rank() + 1 : rank() - 1, in);
    for (auto& request : requests) MPI_Request_free(&request);
  }
  MPI_Comm merged = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Intercomm_merge(inter, rank() % 2, &merged));
  expect_to_carry_and_free(merged);
  MPI_Comm duplicate = MPI_COMM_NULL;
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(inter, &duplicate));
  MPI_Comm_free(&duplicate);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

TEST(DropinCommunicator, messages_of_the_program_and_of_partita_never_meet) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  {
    Ring ring(4, 10, comm, 5);
    int in = -1;
    MPI_Request anything = MPI_REQUEST_NULL;
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &anything);
    ring.start();
    ring.mark_all();
    ring.finish();
    ring.expect_arrived();
    int flag = 1;
    MPI_Test(&anything, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(0, flag);
    harness_barrier();
    const int out = 12;
    MPI_Send(&out, 1, MPI_INT, ring.next(), 5, comm);
    MPI_Wait(&anything, MPI_STATUS_IGNORE);
    EXPECT_EQ(12, in);
  }
  MPI_Comm_free(&comm);
}

TEST(DropinCommunicator, many_can_be_made_and_freed) {
  // More than an MPI has ids for; ranks that share cores take long over each.
  const int rounds = ranks() == 1 ? 3000 : 200;
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(MPI_COMM_WORLD, &comm)) << round;
    if (round % 100 == 0) expect_to_carry(comm);
    MPI_Comm_free(&comm);
  }
}

}  // namespace
}  // namespace partita::test
