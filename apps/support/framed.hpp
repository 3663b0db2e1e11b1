// Cells of 8 bytes, row by row, inside a frame one cell wide.
#pragma once

#include <cstddef>

namespace partita::apps {

/// A view of the cells in somebody's memory. Rows and columns count from 1; the frame is row and column 0 and the ones
/// after the last. `stride` is the distance between rows in cells.
template <class Cell>
struct Framed {
  Cell* cells = nullptr;
  int rows = 0, columns = 0;
  std::ptrdiff_t stride = 0;

  Cell& at(int row, int column) const { return cells[row * stride + column]; }
  Cell* row(int row) const { return cells + row * stride; }
};

/// Cells between the rows of `columns` columns: the frame included, in whole cache lines of 64 bytes.
constexpr std::ptrdiff_t stride_of(int columns) {
  return (static_cast<std::ptrdiff_t>(columns) + 2 + 7) / 8 * 8;
}

/// Cells that memory takes, the frame included.
constexpr std::ptrdiff_t size_of(int rows, int columns) {
  return (static_cast<std::ptrdiff_t>(rows) + 2) * stride_of(columns);
}

/// The view of `memory`, which holds size_of(rows, columns) cells.
template <class Cell>
Framed<Cell> framed_in(Cell* memory, int rows, int columns) {
  static_assert(sizeof(Cell) == 8);
  return {memory, rows, columns, stride_of(columns)};
}

}  // namespace partita::apps
