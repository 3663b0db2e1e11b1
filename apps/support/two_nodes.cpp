#include "apps/support/two_nodes.hpp"

#include <algorithm>
#include <cstdlib>

namespace partita::apps {
namespace {

int size_of(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

/// Over all ranks of `comm`.
int reduced(MPI_Comm comm, int value, MPI_Op operation) {
  int result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_INT, operation, comm);
  return result;
}

}  // namespace

int nodes_of_a_machine() {
  const char* text = std::getenv("PARTITA_NODES");
  if (text == nullptr) return 1;
  constexpr int decimal = 10;  // Partita_Init has refused what is no number
  return std::max(1, static_cast<int>(std::strtol(text, nullptr, decimal)));
}

MPI_Comm split_by_node(MPI_Comm comm) {
  const int rank = rank_in(comm);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
  const int ranks_of_a_node = std::max(1, size_of(machine) / nodes_of_a_machine());
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split(machine, rank_in(machine) / ranks_of_a_node, rank, &node);
  MPI_Comm_free(&machine);
  return node;
}

TwoNodes::TwoNodes(MPI_Comm comm)
    : within_(split_by_node(comm)), ranks_of_a_node_(size_of(within_)), place_(rank_in(within_)) {
  const int ranks = size_of(comm);
  const int nodes = reduced(comm, place_ == 0 ? 1 : 0, MPI_SUM);
  const int most = reduced(comm, ranks_of_a_node_, MPI_MAX);
  if (ranks % 2 != 0) {
    problem_ = "needs an even number of ranks, half of them on each of two nodes, not " + std::to_string(ranks);
  } else if (nodes == 1) {
    problem_ = "needs ranks on two nodes, and these are on one; on one machine PARTITA_NODES=2 makes two of it";
  } else if (nodes > 2) {
    problem_ = "needs ranks on two nodes, and these are on " + std::to_string(nodes);
  } else if (most != ranks / 2) {
    problem_ =
        "needs as many ranks on both nodes, " + std::to_string(ranks / 2) + ", and one has " + std::to_string(most);
  }
  if (!problem_) MPI_Comm_split(comm, place_, rank_in(comm), &across_);
}

TwoNodes::~TwoNodes() {
  MPI_Comm_free(&within_);
  if (across_ != MPI_COMM_NULL) MPI_Comm_free(&across_);
}

}  // namespace partita::apps
