// The groups of a job on two nodes, which are parts of this machine here.
#include "apps/support/two_nodes.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/job.hpp"

namespace partita::apps {
namespace {

using partita::test::rank;
using partita::test::ranks;

class TwoNodesOfAJob : public testing::Test {
 protected:
  static void divide_into(int nodes) { setenv("PARTITA_NODES", std::to_string(nodes).c_str(), 1); }
  void TearDown() override { unsetenv("PARTITA_NODES"); }
};

/// The ranks of `comm` by their numbers in MPI_COMM_WORLD.
std::vector<int> members(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<int> found(static_cast<std::size_t>(size));
  const int own = rank();
  MPI_Allgather(&own, 1, MPI_INT, found.data(), 1, MPI_INT, comm);
  return found;
}

TEST_F(TwoNodesOfAJob, are_halves_of_neighbouring_ranks_and_pairs_between_them) {
  if (ranks() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  divide_into(2);
  const TwoNodes nodes(MPI_COMM_WORLD);
  ASSERT_FALSE(nodes.problem()) << *nodes.problem();
  const int half = ranks() / 2;
  EXPECT_EQ(half, nodes.ranks_of_a_node());
  EXPECT_EQ(rank() % half, nodes.place());
  std::vector<int> expected;
  for (int r = 0; r < half; ++r) expected.push_back(rank() / half * half + r);
  EXPECT_EQ(expected, members(nodes.within()));
  EXPECT_EQ((std::vector<int>{rank() % half, rank() % half + half}), members(nodes.across()));
}

/// Why the job is none on two nodes; empty where it is.
std::string problem() {
  return TwoNodes(MPI_COMM_WORLD).problem().value_or("");
}

TEST_F(TwoNodesOfAJob, do_not_share_an_odd_number_of_ranks) {
  if (ranks() % 2 == 0) GTEST_SKIP() << "an even number of ranks";
  EXPECT_NE(problem().find("even number of ranks"), std::string::npos) << problem();
  EXPECT_NE(problem().find("not " + std::to_string(ranks())), std::string::npos) << problem();
}

TEST_F(TwoNodesOfAJob, are_not_one_machine_unless_it_is_divided) {
  if (ranks() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  EXPECT_NE(problem().find("PARTITA_NODES=2"), std::string::npos) << problem();
}

TEST_F(TwoNodesOfAJob, are_no_more_than_two) {
  if (ranks() % 4 != 0) GTEST_SKIP() << "too few ranks, or a number that does not divide";
  divide_into(ranks());
  EXPECT_NE(problem().find("these are on " + std::to_string(ranks())), std::string::npos) << problem();
}

}  // namespace
}  // namespace partita::apps
