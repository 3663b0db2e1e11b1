// The halo of a block: what its four sides exchange, and the pieces of its edge that read and fill them.
#pragma once

#include <array>
#include <vector>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/field.hpp"

namespace jacobi2d {

/// The first of the cells that the neighbour at `side` needs: north and south a row, west and east a column.
double* edge_cells(const Field& field, Side side);
/// The first of the halo cells that the neighbour at `side` fills.
double* halo_cells(const Field& field, Side side);
/// How many cells a halo at `side` has.
int halo_length(const Field& field, Side side);

/// One partition of the halo at one side, counted from north to south or from west to east.
struct HaloPartition {
  Side side{};
  int partition = 0;

  bool operator==(const HaloPartition&) const = default;
};

/// Some cells of a block's edge and the halo partitions along them: computing the cells reads these
/// partitions as the neighbours sent them, and fills the partitions of the same numbers that the neighbours receive.
struct EdgePiece {
  Cells cells;
  std::vector<HaloPartition> along;
};

/// Partitions per side; 0 where the grid ends and nobody sends.
using PartitionCounts = std::array<int, side_count>;

/// The edge of a block of rows x columns, cut so that every edge cell is in one piece and a piece lies along one
/// partition of its side. Corner cells belong to the rows, so a piece at the end of a row lies along partitions of two
/// sides or three. Counts must divide the side that they are for.
std::vector<EdgePiece> edge_pieces(int rows, int columns, const PartitionCounts& partitions);

/// Into how many runs a side without a neighbour is cut, so that threads can share its cells.
inline constexpr int runs_without_neighbour = 4;

}  // namespace jacobi2d
