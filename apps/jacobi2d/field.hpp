// A rank's part of the grid: cells of doubles, row by row, inside a halo one cell wide.
#pragma once

#include <cstddef>

namespace jacobi2d {

/// A rectangle of cells; rows and columns count from 1, the halo is row and column 0 and the ones after the last.
/// Both ends are included; a last one before its first means no cells.
struct Cells {
  int first_row = 1, last_row = 0;
  int first_column = 1, last_column = 0;

  bool operator==(const Cells&) const = default;
};

/// A view of the cells in somebody's memory. `stride` is the distance between rows in doubles.
struct Field {
  double* cells = nullptr;
  int rows = 0, columns = 0;
  std::ptrdiff_t stride = 0;

  double& at(int row, int column) const { return cells[row * stride + column]; }
  double* row(int row) const { return cells + row * stride; }
};

/// Doubles between the rows of a field of `columns` columns: its halo included, in whole cache lines of 64 bytes.
constexpr std::ptrdiff_t stride_of(int columns) {
  return (static_cast<std::ptrdiff_t>(columns) + 2 + 7) / 8 * 8;
}

/// Doubles that a field takes, its halo included.
constexpr std::ptrdiff_t size_of(int rows, int columns) {
  return (static_cast<std::ptrdiff_t>(rows) + 2) * stride_of(columns);
}

/// The view of a field in `memory`, which holds size_of(rows, columns) doubles.
inline Field field_in(double* memory, int rows, int columns) {
  return {memory, rows, columns, stride_of(columns)};
}

/// Every cell that is computed, so all but the halo.
constexpr Cells all_cells(int rows, int columns) {
  return {1, rows, 1, columns};
}
/// The cells whose four neighbours are all computed by the same rank.
constexpr Cells interior_cells(int rows, int columns) {
  return {2, rows - 1, 2, columns - 1};
}

}  // namespace jacobi2d
