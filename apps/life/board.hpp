// This rank's part of the board, and how it plays a game.
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/halo/halo.hpp"
#include "apps/life/gpu/player.hpp"
#include "apps/life/outcome.hpp"
#include "apps/life/rules.hpp"
#include "apps/support/reachable_memory.hpp"

namespace life {

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

  /// From here on games are played on this rank's GPU, after gpu::Player::choose_device. Collective.
  void move_to_gpu();
  bool on_gpu() const { return player_ != nullptr; }
  /// The GPUs of the job, for people.
  std::string describe_device() const { return player_->describe(); }
  /// Why `mode`, one of the device's, cannot run in this job, the same on every rank; nothing if it can. Collective.
  std::optional<std::string> problem_with(std::string_view mode) const;

  /// Plays `generations` from the first generation on. Collective. On long runs rank 0 reports progress to standard
  /// error.
  Outcome play(std::string_view mode, int generations);

  /// The whole board after play(), row by row, on rank 0; empty elsewhere. Collective.
  std::vector<Cell> gather() const;

 private:
  Outcome play_on_host(std::string_view mode, int generations);
  /// One of two in host memory, made when it is needed, where the neighbours can write the frame.
  Field field(std::size_t which) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  partita::apps::Division division_;
  partita::apps::Block block_;
  Game game_;
  partita::halo_shape shape_;
  mutable std::array<std::unique_ptr<partita::apps::ReachableMemory>, 2> memory_;  ///< what field() has made
  std::size_t current_ = 0;  ///< which field holds the last generation, on the host
  std::unique_ptr<gpu::Player> player_;
};

}  // namespace life
