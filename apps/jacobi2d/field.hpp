// A rank's part of the grid: cells of doubles, row by row, inside a halo one cell wide.
#pragma once

#include "apps/support/framed.hpp"

namespace jacobi2d {

/// A view of the cells in somebody's memory; the frame is the halo.
using Field = partita::apps::Framed<double>;
using partita::apps::size_of;
using partita::apps::stride_of;

/// The view of a field in `memory`, which holds size_of(rows, columns) doubles.
inline Field field_in(double* memory, int rows, int columns) {
  return partita::apps::framed_in(memory, rows, columns);
}

/// A rectangle of cells; rows and columns count from 1, the halo is row and column 0 and the ones after the last.
/// Both ends are included; a last one before its first means no cells.
struct Cells {
  int first_row = 1, last_row = 0;
  int first_column = 1, last_column = 0;

  bool operator==(const Cells&) const = default;
};

/// Every cell that is computed, so all but the halo.
constexpr Cells all_cells(int rows, int columns) {
  return {1, rows, 1, columns};
}
/// The cells whose four neighbours are all computed by the same rank.
constexpr Cells interior_cells(int rows, int columns) {
  return {2, rows - 1, 2, columns - 1};
}

}  // namespace jacobi2d
