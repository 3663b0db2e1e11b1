#include "apps/jacobi2d/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "apps/jacobi2d/stencil.hpp"

namespace jacobi2d {
namespace {

const Division division{9, 12, 3, 2};

std::vector<double> cells_of(const Field& field) {
  std::vector<double> cells;
  for (int row = 1; row <= field.rows; ++row) {
    for (int column = 1; column <= field.columns; ++column) cells.push_back(field.at(row, column));
  }
  return cells;
}

/// Two fields of the whole grid in the starting state.
struct Fields {
  explicit Fields(const Division& whole)
      : problem(make_problem(whole.rows, whole.columns)),
        memory(2 * static_cast<std::size_t>(size_of(whole.rows, whole.columns))),
        from(field_in(memory.data(), whole.rows, whole.columns)),
        to(field_in(memory.data() + size_of(whole.rows, whole.columns), whole.rows, whole.columns)) {
    for (const Field& field : {from, to}) fill(field, {0, 0, whole.rows, whole.columns}, whole, problem);
  }

  Problem problem;
  std::vector<double> memory;
  Field from, to;
};

TEST(Reference, finds_no_difference_in_its_own_field) {
  Reference reference(division, make_problem(division.rows, division.columns));
  const Field& field = reference.after(7);
  EXPECT_FALSE(first_difference(division, cells_of(field), field));
}

TEST(Reference, finds_a_cell_whose_last_bit_is_wrong_and_names_its_owner) {
  Reference reference(division, make_problem(division.rows, division.columns));
  const Field& field = reference.after(7);
  std::vector<double> cells = cells_of(field);
  double& wrong = cells[static_cast<std::size_t>(5 * division.columns + 8)];
  wrong = std::nextafter(wrong, 1000.0);
  cells.back() += 1.0;

  const auto difference = first_difference(division, cells, field);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->row, 5);
  EXPECT_EQ(difference->column, 8);
  EXPECT_EQ(difference->owner, 3);
  EXPECT_EQ(difference->cells, 2);
  EXPECT_EQ(difference->got, wrong);
  EXPECT_NE(describe(*difference).find("row 5, column 8, computed by rank 3"), std::string::npos);
}

TEST(Reference, takes_nan_and_minus_zero_for_different) {
  Fields fields({4, 4, 1, 1});
  for (const auto& [expected, got] : {std::pair(1.0, std::numeric_limits<double>::quiet_NaN()), std::pair(0.0, -0.0)}) {
    fields.from.at(2, 2) = expected;
    std::vector<double> cells = cells_of(fields.from);
    cells[5] = got;
    EXPECT_TRUE(first_difference({4, 4, 1, 1}, cells, fields.from));
  }
}

TEST(Reference, goes_on_from_where_it_was_and_starts_again_for_fewer_iterations) {
  const Problem problem = make_problem(division.rows, division.columns);
  Reference one(division, problem);
  Reference other(division, problem);
  one.after(3);
  EXPECT_FALSE(first_difference(division, cells_of(one.after(10)), other.after(10)));
  EXPECT_FALSE(first_difference(division, cells_of(one.after(4)), Reference(division, problem).after(4)));
}

TEST(Stencil, takes_the_mean_of_the_four_neighbours) {
  Fields fields({3, 3, 1, 1});
  fields.from.at(1, 2) = 1.0;
  fields.from.at(3, 2) = 2.0;
  fields.from.at(2, 1) = 4.0;
  fields.from.at(2, 3) = 9.0;
  fields.from.at(2, 2) = 1.5;
  EXPECT_EQ(relax(fields.from, fields.to, {2, 2, 2, 2}, Measure::change), 2.5);
  EXPECT_EQ(fields.to.at(2, 2), 4.0);
}

TEST(Stencil, gives_the_same_bits_however_the_cells_are_divided) {
  const Division whole{40, 33, 1, 1};
  Fields at_once(whole), in_shares(whole);
  const Cells all = all_cells(whole.rows, whole.columns);
  const double change = relax(at_once.from, at_once.to, all, Measure::change);

  double change_in_shares = 0.0;
  for (int thread = 0; thread < 7; ++thread) {
    for_each_chunk(share_of(all, thread, 7), [&](const Cells& chunk) {
      change_in_shares = std::max(change_in_shares, relax(in_shares.from, in_shares.to, chunk, Measure::change));
    });
  }
  EXPECT_EQ(change, change_in_shares);
  EXPECT_FALSE(first_difference(whole, cells_of(in_shares.to), at_once.to));
}

TEST(Stencil, shares_and_chunks_cover_every_row_once) {
  for (const int threads : {1, 2, 3, 8}) {
    std::vector<int> times(6, 0);
    for (int thread = 0; thread < threads; ++thread) {
      for_each_chunk(share_of({1, 5, 1, 10000}, thread, threads), [&](const Cells& chunk) {
        for (int row = chunk.first_row; row <= chunk.last_row; ++row) ++times[static_cast<std::size_t>(row)];
      });
    }
    EXPECT_EQ(times, (std::vector<int>{0, 1, 1, 1, 1, 1}));
  }
}

TEST(Problem, gives_every_block_the_cells_and_the_halo_of_the_whole) {
  const Division whole{21, 34, 3, 2};
  const Problem problem = make_problem(whole.rows, whole.columns);
  std::vector<double> memory(static_cast<std::size_t>(size_of(whole.rows, whole.columns)));
  const Field all = field_in(memory.data(), whole.rows, whole.columns);
  fill(all, {0, 0, whole.rows, whole.columns}, whole, problem);
  for (int rank = 0; rank < whole.ranks(); ++rank) {
    const Block block = block_of(whole, rank);
    std::vector<double> part(static_cast<std::size_t>(size_of(block.rows, block.columns)));
    const Field field = field_in(part.data(), block.rows, block.columns);
    fill(field, block, whole, problem);
    for (int row = 0; row <= block.rows + 1; ++row) {
      for (int column = 0; column <= block.columns + 1; ++column) {
        ASSERT_EQ(field.at(row, column), all.at(block.first_row + row, block.first_column + column));
      }
    }
  }
}

TEST(Problem, starts_between_the_coldest_and_the_hottest) {
  Fields fields({50, 20, 1, 1});
  for (const double cell : cells_of(fields.from)) {
    EXPECT_GE(cell, coldest);
    EXPECT_LE(cell, hottest);
  }
}

}  // namespace
}  // namespace jacobi2d
