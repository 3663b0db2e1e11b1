#include "apps/jacobi2d/halo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace jacobi2d {
namespace {

struct Case {
  int rows, columns;
  PartitionCounts partitions;
};

std::vector<Case> cases() {
  return {
      {8, 12, {4, 4, 2, 2}}, {8, 12, {0, 3, 0, 8}}, {2, 2, {1, 2, 2, 1}}, {2, 9, {3, 0, 1, 2}},   {9, 2, {2, 1, 9, 3}},
      {6, 6, {0, 0, 0, 0}},  {5, 7, {7, 1, 5, 1}},  {3, 3, {1, 1, 1, 1}}, {64, 4, {4, 4, 64, 1}}, {2, 2, {0, 0, 0, 0}},
  };
}

using Cell = std::pair<int, int>;

std::vector<Cell> set_of(const Cells& cells) {
  std::vector<Cell> list;
  for (int row = cells.first_row; row <= cells.last_row; ++row) {
    for (int column = cells.first_column; column <= cells.last_column; ++column) list.emplace_back(row, column);
  }
  return list;
}

/// The partitions whose halo cells touch the cell: one for each side at which the cell lies and somebody sends.
std::vector<HaloPartition> partitions_at(const Case& block, const Cell& cell) {
  const auto [row, column] = cell;
  const auto& counts = block.partitions;
  std::vector<HaloPartition> list;
  const auto add = [&](bool lies_there, Side side, int position, int length) {
    const int count = counts[index_of(side)];
    if (lies_there && count > 0) list.push_back({side, (position - 1) / (length / count)});
  };
  add(row == 1, Side::north, column, block.columns);
  add(row == block.rows, Side::south, column, block.columns);
  add(column == 1, Side::west, row, block.rows);
  add(column == block.columns, Side::east, row, block.rows);
  return list;
}

TEST(EdgePieces, cover_every_edge_cell_once_and_no_other) {
  for (const Case& block : cases()) {
    std::map<Cell, int> times;
    for (const EdgePiece& piece : edge_pieces(block.rows, block.columns, block.partitions)) {
      for (const Cell& cell : set_of(piece.cells)) ++times[cell];
    }
    for (int row = 1; row <= block.rows; ++row) {
      for (int column = 1; column <= block.columns; ++column) {
        const bool on_edge = row == 1 || row == block.rows || column == 1 || column == block.columns;
        EXPECT_EQ(times[Cell(row, column)], on_edge ? 1 : 0) << "row " << row << " column " << column;
      }
    }
  }
}

TEST(EdgePieces, name_exactly_the_partitions_along_their_cells) {
  for (const Case& block : cases()) {
    for (const EdgePiece& piece : edge_pieces(block.rows, block.columns, block.partitions)) {
      std::vector<HaloPartition> expected;
      for (const Cell& cell : set_of(piece.cells)) {
        for (const HaloPartition& halo : partitions_at(block, cell)) {
          if (std::find(expected.begin(), expected.end(), halo) == expected.end()) expected.push_back(halo);
        }
      }
      EXPECT_TRUE(std::is_permutation(piece.along.begin(), piece.along.end(), expected.begin(), expected.end()))
          << block.rows << " x " << block.columns << ", piece at row " << piece.cells.first_row << " column "
          << piece.cells.first_column;
    }
  }
}

TEST(EdgePieces, leave_the_interior) {
  for (const Case& block : cases()) {
    const Cells interior = interior_cells(block.rows, block.columns);
    for (const EdgePiece& piece : edge_pieces(block.rows, block.columns, block.partitions)) {
      for (const auto& [row, column] : set_of(piece.cells)) {
        EXPECT_FALSE(row >= interior.first_row && row <= interior.last_row && column >= interior.first_column &&
                     column <= interior.last_column);
      }
    }
  }
}

TEST(HaloCells, are_those_beyond_the_edge_cells) {
  std::vector<double> memory(static_cast<std::size_t>(size_of(3, 5)));
  const Field field = field_in(memory.data(), 3, 5);
  EXPECT_EQ(edge_cells(field, Side::north), &field.at(1, 1));
  EXPECT_EQ(halo_cells(field, Side::north), &field.at(0, 1));
  EXPECT_EQ(edge_cells(field, Side::south), &field.at(3, 1));
  EXPECT_EQ(halo_cells(field, Side::south), &field.at(4, 1));
  EXPECT_EQ(edge_cells(field, Side::west), &field.at(1, 1));
  EXPECT_EQ(halo_cells(field, Side::west), &field.at(1, 0));
  EXPECT_EQ(edge_cells(field, Side::east), &field.at(1, 5));
  EXPECT_EQ(halo_cells(field, Side::east), &field.at(1, 6));
  EXPECT_EQ(halo_length(field, Side::north), 5);
  EXPECT_EQ(halo_length(field, Side::east), 3);
  EXPECT_LE(&field.at(4, 6), &memory.back());
}

}  // namespace
}  // namespace jacobi2d
