// Who computes which cells, and the sides of a block.
#pragma once

#include <array>

#include "apps/support/decomposition.hpp"

namespace jacobi2d {

using partita::apps::Block;
using partita::apps::block_at;
using partita::apps::block_of;
using partita::apps::Division;
using partita::apps::owner_of;
using partita::apps::partitions_for;
using partita::apps::problem_with;

/// The four sides of a block, in the order used by every array over sides.
enum class Side { north, south, west, east };
inline constexpr int side_count = 4;
inline constexpr std::array all_sides{Side::north, Side::south, Side::west, Side::east};
constexpr std::size_t index_of(Side side) {
  return static_cast<std::size_t>(side);
}
constexpr Side opposite(Side side) {
  constexpr std::array opposites{Side::south, Side::north, Side::east, Side::west};
  return opposites[index_of(side)];
}
/// A message's tag: it carries the side at which the message arrives.
constexpr int tag_of(Side arrives_at) {
  return static_cast<int>(index_of(arrives_at));
}

/// Cells a side of a rank's block with multiplier 1.
inline constexpr int multiplied_cells = 256;

/// P x Q ranks of equal square blocks: the series of gpu-initiated-partitioned-mpi, figure 8.
inline Division multiplied(int rank_rows, int rank_columns, int multiplier) {
  const int cells = multiplied_cells * multiplier;
  return {rank_rows * cells, rank_columns * cells, rank_rows, rank_columns};
}

}  // namespace jacobi2d
