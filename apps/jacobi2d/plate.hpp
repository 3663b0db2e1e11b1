// This rank's part of the plate: its place among the ranks, its two fields, and how its halo is cut.
#pragma once

#include <mpi.h>

#include <array>
#include <vector>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/halo.hpp"
#include "apps/jacobi2d/problem.hpp"
#include "apps/support/reachable_memory.hpp"

namespace jacobi2d {

/// Both fields of the iteration lie in reachable memory, from which the MPI may send without a copy.
class Plate {
 public:
  /// Collective over `world`, which has division.ranks() ranks. `wanted_partitions` per halo, see partitions_for.
  Plate(MPI_Comm world, const Division& division, int wanted_partitions);
  ~Plate();
  Plate(const Plate&) = delete;
  Plate& operator=(const Plate&) = delete;

  /// Puts both fields into the state before the first iteration.
  void reset();

  /// The Cartesian communicator, without wrap-around, ranks in the order of the communicator it was made from.
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  const Division& division() const { return division_; }
  const Block& block() const { return block_; }
  const Problem& problem() const { return problem_; }

  /// The fields between which the iterations alternate; iteration 1 reads field 0.
  const Field& field(int index) const { return fields_[static_cast<std::size_t>(index)]; }

  /// The sides at which there is a neighbour.
  const std::vector<Side>& sides() const { return sides_; }
  int neighbour(Side side) const { return neighbours_[index_of(side)]; }
  /// Partitions of the halo at `side`; the neighbour there has as many.
  int partitions(Side side) const { return partitions_[index_of(side)]; }
  const std::vector<EdgePiece>& edge() const { return edge_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_;
  Division division_;
  Block block_;
  Problem problem_;
  std::array<int, side_count> neighbours_;
  std::vector<Side> sides_;
  PartitionCounts partitions_{};
  std::vector<EdgePiece> edge_;
  partita::apps::ReachableMemory memory_;
  std::array<Field, 2> fields_;
};

}  // namespace jacobi2d
