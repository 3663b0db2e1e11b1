// The Game of Life itself: the first generation, and the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/life/cell.hpp"
#include "apps/support/decomposition.hpp"

namespace life {

/// What lies beyond the rim of the board: the opposite rim, or cells that never live.
enum class Boundary { periodic, bounded };

/// Everything that a game follows from.
struct Game {
  int rows = 0, columns = 0;
  Boundary boundary = Boundary::periodic;
  int density = 0;  ///< of a hundred cells so many live at the start
  std::uint64_t seed = 0;
};

/// Puts the first generation into `field`, the cells of `block`, and dead cells into its frame. Whether a cell lives
/// does not depend on the block.
void fill(const Field& field, const partita::apps::Block& block, const Game& game);

/// Writes the generation after `from`, whose frame is filled, to the cells of `to`.
void next_generation(const Field& from, const Field& to);

/// Plays the game on the whole board, without messages.
class OneRank {
 public:
  explicit OneRank(const Game& game);

  /// The board after `generations`. Goes on from where the last call ended if it can. Blocks for as long as that takes,
  /// with progress lines.
  const Field& after(int generations);

 private:
  void restart();

  Game game_;
  std::vector<Cell> memory_;
  Field fields_[2];
  int generation_ = 0;
};

}  // namespace life
