#include "apps/jacobi2d/decomposition.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace jacobi2d {
namespace {

std::vector<Division> divisions() {
  return {{8, 8, 2, 2}, {7, 9, 2, 2}, {100, 3, 7, 1}, {3, 100, 1, 7}, {11, 13, 3, 4}, {2, 2, 1, 1}, {65, 64, 8, 8}};
}

TEST(Decomposition, gives_every_cell_to_one_rank_and_owner_of_names_it) {
  for (const Division& division : divisions()) {
    std::vector<int> owner(static_cast<std::size_t>(division.rows * division.columns), -1);
    for (int rank = 0; rank < division.ranks(); ++rank) {
      const Block block = block_of(division, rank);
      for (int row = block.first_row; row < block.first_row + block.rows; ++row) {
        for (int column = block.first_column; column < block.first_column + block.columns; ++column) {
          int& cell = owner[static_cast<std::size_t>(row * division.columns + column)];
          EXPECT_EQ(cell, -1) << "row " << row << " column " << column << " belongs to two ranks";
          cell = rank;
        }
      }
    }
    for (int row = 0; row < division.rows; ++row) {
      for (int column = 0; column < division.columns; ++column) {
        EXPECT_EQ(owner[static_cast<std::size_t>(row * division.columns + column)], owner_of(division, row, column));
      }
    }
  }
}

TEST(Decomposition, makes_blocks_that_differ_by_at_most_one_row_and_column) {
  for (const Division& division : divisions()) {
    for (int rank = 0; rank < division.ranks(); ++rank) {
      const Block block = block_of(division, rank);
      EXPECT_GE(block.rows, division.rows / division.rank_rows);
      EXPECT_LE(block.rows, division.rows / division.rank_rows + 1);
      EXPECT_GE(block.columns, division.columns / division.rank_columns);
      EXPECT_LE(block.columns, division.columns / division.rank_columns + 1);
    }
  }
}

TEST(Decomposition, gives_neighbours_in_a_row_of_ranks_the_same_rows) {
  const Division division{23, 31, 4, 3};
  for (int rank_row = 0; rank_row < 4; ++rank_row) {
    for (int rank_column = 1; rank_column < 3; ++rank_column) {
      EXPECT_EQ(block_at(division, rank_row, 0).rows, block_at(division, rank_row, rank_column).rows);
      EXPECT_EQ(block_at(division, rank_row, 0).first_row, block_at(division, rank_row, rank_column).first_row);
    }
  }
}

TEST(Decomposition, refuses_a_rank_grid_that_is_not_the_job) {
  const auto problem = problem_with({100, 100, 3, 3}, 8);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("3 x 3"), std::string::npos);
  EXPECT_TRUE(problem_with({100, 100, 1 << 20, 1 << 20}, 8)) << "the product must not wrap around";
}

TEST(Decomposition, refuses_blocks_without_an_edge_on_both_sides) {
  EXPECT_TRUE(problem_with({3, 100, 2, 1}, 2));
  EXPECT_TRUE(problem_with({100, 3, 1, 2}, 2));
  EXPECT_FALSE(problem_with({4, 4, 2, 2}, 4));
  EXPECT_FALSE(problem_with({3, 100, 2, 1}, 2, 1)) << "where opposite edges may be the same cells";
  const auto problem = problem_with({1, 100, 2, 1}, 2, 1);
  ASSERT_TRUE(problem);
  for (const char* word : {"1 x 100", "--size", "2 x 1", "--ranks", "at least 1 x 1"}) {
    EXPECT_NE(problem->find(word), std::string::npos) << *problem;
  }
}

TEST(Partitions, divide_the_halo_and_no_other_divisor_is_nearer_in_ratio) {
  for (int length = 1; length <= 200; ++length) {
    for (const int wanted : {1, 2, 3, 5, 8, 16, 64, 1000}) {
      const int count = partitions_for(length, wanted);
      ASSERT_GE(count, 1);
      ASSERT_EQ(length % count, 0) << count << " of " << length;
      const auto distance = [wanted](int divisor) { return std::abs(std::log(static_cast<double>(divisor) / wanted)); };
      for (int divisor = 1; divisor <= length; ++divisor) {
        if (length % divisor == 0) {
          EXPECT_LE(distance(count), distance(divisor) + 1e-12) << length << " by " << wanted;
        }
      }
    }
  }
}

TEST(Partitions, prefer_the_smaller_of_two_equally_near_counts) {
  EXPECT_EQ(partitions_for(8, 8), 8);
  EXPECT_EQ(partitions_for(333, 8), 9);
  EXPECT_EQ(partitions_for(4, 2), 2);
  EXPECT_EQ(partitions_for(16 * 4, 1), 1);
  EXPECT_EQ(partitions_for(9, 1), 1);
  EXPECT_EQ(partitions_for(25, 5), 5);
  EXPECT_EQ(partitions_for(2 * 2 * 31, 8), 4);
  EXPECT_EQ(partitions_for(331, 8), 1);
}

}  // namespace
}  // namespace jacobi2d
