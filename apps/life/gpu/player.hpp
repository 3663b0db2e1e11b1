// Boards in GPU memory, one process a GPU: what is the same in a build with CUDA and in one without.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/halo/halo.hpp"
#include "apps/life/outcome.hpp"
#include "apps/life/rules.hpp"

namespace life::gpu {

/// This rank's block of the board on its GPU, for games in any mode one after the other.
class Player {
 public:
  /// Chooses this rank's GPU among those of its node. Collective over `world`. What stands in the way, as a sentence,
  /// the same on every rank; nothing if GPUs can be used.
  static std::optional<std::string> choose_device(MPI_Comm world);

  /// After choose_device. Collective over `comm`, which is known to Partita and stays the caller's. Throws
  /// std::runtime_error if the GPU has no memory.
  Player(MPI_Comm comm, const partita::halo_shape& shape);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  /// The GPUs of the job, for people: "NVIDIA H200, a GPU for each rank".
  std::string describe() const;
  /// Why `mode` cannot run in this job, the same on every rank; nothing if it can. Collective.
  std::optional<std::string> problem_with(std::string_view mode) const;
  /// Plays `generations` of `game` from the first one on, this rank's cells being those of `block`. Collective. Throws
  /// std::runtime_error or partita::error if the GPU or a peer fails.
  Outcome play(std::string_view mode, const Game& game, const partita::apps::Block& block, int generations);
  /// Copies the last generation of play() into host memory, with its frame.
  void copy_last(const Field& to) const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace life::gpu
