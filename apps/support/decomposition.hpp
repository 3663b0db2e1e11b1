// Who computes which cells: the grid of ranks and the block of each.
#pragma once

#include <optional>
#include <string>

namespace partita::apps {

/// A grid of N x M cells over P x Q ranks.
struct Division {
  int rows = 0, columns = 0;            ///< cells of the whole grid, without what lies around it
  int rank_rows = 1, rank_columns = 1;  ///< P and Q

  int ranks() const { return rank_rows * rank_columns; }
};

/// The cells of one rank, in the whole grid's rows and columns counted from 0.
struct Block {
  int first_row = 0, first_column = 0;
  int rows = 0, columns = 0;

  bool operator==(const Block&) const = default;
};

/// The fewest rows and columns of a block of which opposite edges are different cells.
inline constexpr int fewest_block_cells = 2;

/// The block at (`rank_row`, `rank_column`). Sizes that do not divide evenly give the first blocks one row or column
/// more.
Block block_at(const Division& division, int rank_row, int rank_column);

/// The block of Cartesian rank `rank` (row-major, as MPI_Cart_create numbers them).
Block block_of(const Division& division, int rank);

/// The rank that computes the cell at `row`, `column` of the whole grid.
int owner_of(const Division& division, int row, int column);

/// What is wrong with `division` for `ranks` ranks, whose blocks have at least `fewest_cells` rows and columns, as a
/// sentence that names the options; nothing if it can be computed.
std::optional<std::string> problem_with(const Division& division, int ranks, int fewest_cells = fewest_block_cells);

/// The number of equal partitions for a halo of `length` cells: MPI wants partitions of one size, so it is the divisor
/// of `length` that is nearest to `wanted` in ratio (the smaller of two equally near). At least 1.
int partitions_for(int length, int wanted);

}  // namespace partita::apps
