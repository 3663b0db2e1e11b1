// Jobs on two nodes: the groups of ranks within which and between which they communicate.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>

namespace partita::apps {

/// For how many nodes Partita takes the ranks of each machine (PARTITA_NODES); 1 where nothing is set.
int nodes_of_a_machine();

/// The ranks of `comm`, which has all of the job, that are on this rank's node as Partita sees it, in their order.
/// Collective over `comm`; the caller frees what it gets.
MPI_Comm split_by_node(MPI_Comm comm);

/// The ranks of a job as two nodes with as many ranks each.
class TwoNodes {
 public:
  /// Collective over `comm`, which has all ranks of the job. The communicators are made by the MPI's standard names, so
  /// that a drop-in knows them.
  explicit TwoNodes(MPI_Comm comm);
  ~TwoNodes();
  TwoNodes(const TwoNodes&) = delete;
  TwoNodes& operator=(const TwoNodes&) = delete;

  /// Why the ranks are not that, as a sentence without its subject, the same on all; nothing if they are.
  const std::optional<std::string>& problem() const { return problem_; }
  /// The ranks of this node.
  MPI_Comm within() const { return within_; }
  /// This rank and the one that has its place on the other node, in their order. Without a problem only.
  MPI_Comm across() const { return across_; }
  int ranks_of_a_node() const { return ranks_of_a_node_; }
  /// This rank's place on its node.
  int place() const { return place_; }

 private:
  MPI_Comm within_ = MPI_COMM_NULL;
  MPI_Comm across_ = MPI_COMM_NULL;
  int ranks_of_a_node_ = 1;
  int place_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace partita::apps
