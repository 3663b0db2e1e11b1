// This rank's part of the board, and how it plays a game.
#pragma once

#include <mpi.h>

#include <array>
#include <string_view>
#include <vector>

#include "apps/life/modes.hpp"
#include "apps/life/rules.hpp"

namespace life {

/// How a game went on this rank.
struct Outcome {
  int generations = 0;
  double time_s = 0.0;   ///< of all steps, between two barriers
  double halo_s = 0.0;   ///< of it, to pack, exchange and unpack the halo
  double setup_s = 0.0;  ///< before it, from a barrier on, to make and match the requests
};

/// The neighbours of `rank`, by direction; MPI_PROC_NULL beyond the rim of a bounded board.
partita::halo_neighbours<2> neighbours_of(const partita::apps::Division& division, int rank, Boundary boundary);

/// An edge of a block beyond which there is a neighbour, and the message that goes there.
struct Edge {
  std::string_view name;
  partita::halo_extent message;
};
std::vector<Edge> edges_of(const partita::halo_shape& shape);

class Board {
 public:
  /// Collective over `world`, which has division.ranks() ranks. `wanted_partitions` of each edge in mode partitioned.
  Board(MPI_Comm world, const partita::apps::Division& division, const Game& game, int wanted_partitions);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  const partita::apps::Division& division() const { return division_; }
  const Game& game() const { return game_; }
  const partita::halo_shape& shape() const { return shape_; }

  /// Plays `generations` from the first generation on. Collective. On long runs rank 0 reports progress to standard
  /// error.
  Outcome play(const Mode& mode, int generations);

  /// The whole board after play(), row by row, on rank 0; empty elsewhere. Collective.
  std::vector<Cell> gather() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  partita::apps::Division division_;
  partita::apps::Block block_;
  Game game_;
  partita::halo_shape shape_;
  std::vector<Cell> memory_;
  std::array<Field, 2> fields_;
  std::size_t current_ = 0;
};

}  // namespace life
