// PARTITA_NODES: the ranks of one machine take themselves for several nodes.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// A Partita that is started anew with a number of nodes.
class Nodes : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("PARTITA_NODES");
    int running = 0;
    EXPECT_OK(Partita_Initialized(&running));
    if (running != 0) {
      EXPECT_OK(Partita_Finalize());
    }
    EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
  }

  static int init_with(const std::string& nodes) {
    setenv("PARTITA_NODES", nodes.c_str(), 1);
    EXPECT_OK(Partita_Finalize());
    return Partita_Init(MPI_COMM_WORLD);
  }

 private:
  ErrorsReturn handler_{MPI_COMM_WORLD};
};

std::string told_of(Partita_Request request, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_OK(Partita_Request_get_info(request, &info));
  std::array<char, MPI_MAX_INFO_VAL + 1> value{};
  int found = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value.data(), &found);
  MPI_Info_free(&info);
  return found != 0 ? value.data() : "";
}

/// The node of `rank` where the job has `nodes` of them.
int node_of_rank(int rank, int nodes) {
  return rank / (ranks() / nodes);
}

void await_all(std::vector<Partita_Request>& requests) {
  EXPECT_OK(Partita_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

/// A message to each rank, and one from each; of which link the sends were.
std::vector<std::string> links_to_all() {
  constexpr int count = 1000;
  const auto size = static_cast<std::size_t>(ranks());
  std::vector<std::vector<int>> sent(size, std::vector<int>(count)), received(size, std::vector<int>(count, -1));
  std::vector<Partita_Request> requests(2 * size, PARTITA_REQUEST_NULL);
  for (int peer = 0; peer < ranks(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    std::iota(sent[p].begin(), sent[p].end(), rank() * 100 + peer);
    EXPECT_OK(Partita_Psend_init(sent[p].data(), 4, count / 4, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &requests[p]));
    EXPECT_OK(Partita_Precv_init(received[p].data(), 4, count / 4, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &requests[size + p]));
  }
  EXPECT_OK(Partita_Startall(static_cast<int>(requests.size()), requests.data()));
  for (std::size_t p = 0; p < size; ++p) EXPECT_OK(Partita_Pready_range(0, 3, requests[p]));
  await_all(requests);
  std::vector<std::string> links;
  for (int peer = 0; peer < ranks(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    std::vector<int> expected(count);
    std::iota(expected.begin(), expected.end(), peer * 100 + rank());
    EXPECT_EQ(expected, received[p]) << "from rank " << peer;
    links.push_back(told_of(requests[p], "partita_link"));
  }
  for (Partita_Request& request : requests) EXPECT_OK(Partita_Request_free(&request));
  return links;
}

TEST_F(Nodes, ranks_of_two_nodes_use_a_link_of_a_network_and_those_of_one_do_not) {
  ASSERT_OK(init_with("2"));
  const std::vector<std::string> links = links_to_all();
  for (int peer = 0; peer < ranks(); ++peer) {
    const bool near = node_of_rank(peer, 2) == node_of_rank(rank(), 2);
    EXPECT_EQ(near, links[static_cast<std::size_t>(peer)] == "direct") << "to rank " << peer;
  }
}

TEST_F(Nodes, as_many_as_ranks_leave_link_direct_to_nobody_but_oneself) {
  ASSERT_OK(init_with(std::to_string(ranks())));
  const std::vector<std::string> links = links_to_all();
  for (int peer = 0; peer < ranks(); ++peer) {
    EXPECT_EQ(peer == rank(), links[static_cast<std::size_t>(peer)] == "direct") << "to rank " << peer;
  }
}

TEST_F(Nodes, one_is_the_machine_itself) {
  ASSERT_OK(init_with("1"));
  const std::vector<std::string> links = links_to_all();
  EXPECT_EQ(ranks(), std::count(links.begin(), links.end(), "direct"));
}

/// Epochs of sums over all ranks, in 4 partitions, which are marked in an order that differs by rank.
std::string summed_by(const char* algorithm) {
  constexpr int partitions = 4, each = 750;
  const std::size_t count = std::size_t{partitions} * each;
  std::vector<int> in(count), out(count), expected(count);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_algorithm", algorithm);
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_OK(Partita_Pallreduce_init(in.data(), out.data(), partitions, each, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                    &request));
  MPI_Info_free(&info);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (std::size_t i = 0; i < count; ++i) {
      const int index = static_cast<int>(i);
      in[i] = rank() * 10 + index + epoch;
      expected[i] = ranks() * (index + epoch) + 10 * ranks() * (ranks() - 1) / 2;
    }
    std::fill(out.begin(), out.end(), -1);
    EXPECT_OK(Partita_Start(&request));
    EXPECT_OK(Partita_Pbuf_prepare(request));
    for (int p = 0; p < partitions; ++p) EXPECT_OK(Partita_Pready((p + rank()) % partitions, request));
    EXPECT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(expected, out) << algorithm << ", epoch " << epoch;
  }
  const std::string links = told_of(request, "partita_link");
  EXPECT_OK(Partita_Request_free(&request));
  return links;
}

TEST_F(Nodes, an_allreduce_over_two_nodes_goes_by_both_kinds_of_link) {
  ASSERT_OK(init_with("2"));
  const std::string links = summed_by("recursive_doubling");
  const bool has_near = links.find("direct") != std::string::npos;
  EXPECT_EQ(ranks() > 2, has_near) << links;
  EXPECT_TRUE(links.find("ucx") != std::string::npos || links.find("mpi") != std::string::npos) << links;
  for (const char* algorithm : {"ring", "recursive_halving"}) summed_by(algorithm);
}

TEST_F(Nodes, that_do_not_divide_the_ranks_are_every_ranks_error) {
  EXPECT_ERROR(init_with("3"), MPI_ERR_ARG, "rank 0 could not divide its node", "PARTITA_NODES=3",
               "expected is a divisor", std::to_string(ranks()));
}

TEST_F(Nodes, of_different_numbers_are_every_ranks_error) {
  const int last = ranks() - 1;
  EXPECT_ERROR(init_with(rank() == last ? "1" : "2"), MPI_ERR_ARG, "rank " + std::to_string(last) + " could not",
               "PARTITA_NODES is 1 here and 2 on another rank", "expected is the same");
}

}  // namespace
}  // namespace partita::test
