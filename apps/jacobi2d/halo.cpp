#include "apps/jacobi2d/halo.hpp"

#include <algorithm>
#include <cstdint>

namespace jacobi2d {
namespace {

bool is_row(Side side) {
  return side == Side::north || side == Side::south;
}

bool touches(const Cells& cells, int rows, int columns, Side side) {
  switch (side) {
    case Side::north:
      return cells.first_row == 1;
    case Side::south:
      return cells.last_row == rows;
    case Side::west:
      return cells.first_column == 1;
    case Side::east:
      return cells.last_column == columns;
  }
  return false;
}

/// The run `index` of `runs` runs of the cells 1 to `length` along a side.
std::array<int, 2> run_along(int length, int runs, int index) {
  const auto begin = [&](int i) { return static_cast<int>(static_cast<std::int64_t>(length) * i / runs); };
  return {begin(index) + 1, begin(index + 1)};
}

Cells cells_along(int rows, int columns, Side side, int first, int last) {
  switch (side) {
    case Side::north:
      return {1, 1, first, last};
    case Side::south:
      return {rows, rows, first, last};
    // The corners belong to the rows.
    case Side::west:
      return {std::max(first, 2), std::min(last, rows - 1), 1, 1};
    case Side::east:
      return {std::max(first, 2), std::min(last, rows - 1), columns, columns};
  }
  return {};
}

std::vector<HaloPartition> partitions_along(const Cells& cells, int rows, int columns, const PartitionCounts& counts) {
  std::vector<HaloPartition> along;
  for (const Side side : all_sides) {
    const int count = counts[index_of(side)];
    if (count == 0 || !touches(cells, rows, columns, side)) continue;
    const int partition_length = (is_row(side) ? columns : rows) / count;
    const int first = is_row(side) ? cells.first_column : cells.first_row;
    const int last = is_row(side) ? cells.last_column : cells.last_row;
    for (int p = (first - 1) / partition_length; p <= (last - 1) / partition_length; ++p) along.push_back({side, p});
  }
  return along;
}

}  // namespace

double* edge_cells(const Field& field, Side side) {
  switch (side) {
    case Side::north:
    case Side::west:
      return &field.at(1, 1);
    case Side::south:
      return &field.at(field.rows, 1);
    case Side::east:
      return &field.at(1, field.columns);
  }
  return nullptr;
}

double* halo_cells(const Field& field, Side side) {
  switch (side) {
    case Side::north:
      return &field.at(0, 1);
    case Side::south:
      return &field.at(field.rows + 1, 1);
    case Side::west:
      return &field.at(1, 0);
    case Side::east:
      return &field.at(1, field.columns + 1);
  }
  return nullptr;
}

int halo_length(const Field& field, Side side) {
  return is_row(side) ? field.columns : field.rows;
}

std::vector<EdgePiece> edge_pieces(int rows, int columns, const PartitionCounts& partitions) {
  std::vector<EdgePiece> pieces;
  for (const Side side : all_sides) {
    const int length = is_row(side) ? columns : rows;
    const int count = partitions[index_of(side)];
    const int runs = count > 0 ? count : std::min(length, runs_without_neighbour);
    for (int run = 0; run < runs; ++run) {
      const auto [first, last] = run_along(length, runs, run);
      const Cells cells = cells_along(rows, columns, side, first, last);
      if (cells.last_row < cells.first_row) continue;
      pieces.push_back({cells, partitions_along(cells, rows, columns, partitions)});
    }
  }
  return pieces;
}

}  // namespace jacobi2d
