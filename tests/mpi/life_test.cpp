// The halo and the app life: every way to exchange the halo fills the whole frame and gives the board that one rank
// plays; bad options end on all ranks.
#include "apps/life/life.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/life/board.hpp"
#include "apps/life/frame.hpp"
#include "apps/life/modes.hpp"
#include "apps/life/picture.hpp"
#include "apps/life/report.hpp"
#include "apps/support/collect.hpp"
#include "support/app.hpp"
#include "support/job.hpp"

namespace life {
namespace {

using partita::apps::Division;
using partita::test::divisions_of;
using partita::test::rank;
using partita::test::ranks;

/// What the cell at a place of the whole grid holds in round `round`: different bits everywhere, of a double.
double value_at(int row, int column, int round) {
  return 1000.0 * row + column + 0.25 * round + 1.0;
}

/// The frame's cell at a place that may lie beyond the rim; -1 where nobody sends.
double framed_value(const Division& division, Boundary boundary, int row, int column, int round) {
  if (boundary == Boundary::periodic) {
    return value_at((row + division.rows) % division.rows, (column + division.columns) % division.columns, round);
  }
  const bool outside = row < 0 || row >= division.rows || column < 0 || column >= division.columns;
  return outside ? -1.0 : value_at(row, column, round);
}

void expect_frames(const Division& division, Boundary boundary, const HostMode& mode) {
  const partita::apps::Block block = partita::apps::block_of(division, rank());
  const auto cells = static_cast<std::size_t>(partita::apps::size_of(block.rows, block.columns));
  std::vector<double> memory(2 * cells, -1.0);
  const std::array fields{partita::apps::framed_in(memory.data(), block.rows, block.columns),
                          partita::apps::framed_in(memory.data() + cells, block.rows, block.columns)};
  const auto framed = [&](std::size_t which) {
    return partita::framed_block{fields[which].cells, block.rows, block.columns, fields[which].stride};
  };
  partita::framed_halo halo(MPI_COMM_WORLD, {block.rows, block.columns, neighbours_of(division, rank(), boundary), 3},
                            {framed(0), framed(1)}, mode.way);
  std::string wrong;  // the first cell that is, so that all ranks go on together
  for (int round = 0; round < 5; ++round) {
    const std::size_t turn = round % 2;
    const auto& field = fields[turn];
    for (int row = 1; row <= block.rows; ++row) {
      for (int column = 1; column <= block.columns; ++column) {
        field.at(row, column) = value_at(block.first_row + row - 1, block.first_column + column - 1, round);
      }
    }
    halo.exchange(framed(turn));
    for (int row = 0; row <= block.rows + 1; ++row) {
      for (int column = 0; column <= block.columns + 1; ++column) {
        const double expected =
            framed_value(division, boundary, block.first_row + row - 1, block.first_column + column - 1, round);
        if (wrong.empty() && field.at(row, column) != expected) {
          wrong = fmt::format("round {}, row {}, column {}: expected {}, got {}", round, row, column, expected,
                              field.at(row, column));
        }
      }
    }
  }
  EXPECT_EQ("", wrong) << mode.name;
}

TEST(Halo, every_way_fills_the_frame_with_corners_and_leaves_the_rim) {
  for (const auto& [rows, columns] : {std::pair(12, 18), std::pair(9, 8)}) {
    for (const Division& division : divisions_of(rows, columns)) {
      for (const Boundary boundary : {Boundary::periodic, Boundary::bounded}) {
        for (const HostMode& mode : host_modes) {
          partita::test::step(fmt::format("{} on {} x {} ranks", mode.name, division.rank_rows, division.rank_columns));
          expect_frames(division, boundary, mode);
        }
      }
    }
  }
}

/// A halo needs no two rows: here each rank has a row, or a column, and its edges are its own neighbours' too.
TEST(Halo, blocks_may_be_one_cell_wide) {
  for (const Division& division : {Division{ranks(), 5, ranks(), 1}, Division{5, ranks(), 1, ranks()}}) {
    for (const HostMode& mode : host_modes) expect_frames(division, Boundary::periodic, mode);
  }
}

/// So that what a rank throws is not held up by the others. Queue-ready receives would stay active behind this.
TEST(Halo, is_ended_by_an_exception_on_one_rank_alone) {
  const Division division{ranks(), 5, ranks(), 1};
  const auto cells = static_cast<std::size_t>(partita::apps::size_of(1, 5));
  std::vector<Cell> memory(2 * cells);
  const partita::framed_pair blocks{frame_of(partita::apps::framed_in(memory.data(), 1, 5)),
                                    frame_of(partita::apps::framed_in(memory.data() + cells, 1, 5))};
  for (const partita::halo_way way : {partita::halo_way::queue_regular, partita::halo_way::partitioned}) {
    const auto exchange_and_throw = [&] {
      partita::framed_halo halo(MPI_COMM_WORLD, {1, 5, neighbours_of(division, rank(), Boundary::periodic), 1}, blocks,
                                way);
      halo.exchange(blocks[0]);
      if (rank() != 0) partita::test::harness_barrier();
      throw 1;
    };
    EXPECT_THROW(exchange_and_throw(), int);
    if (rank() == 0) partita::test::harness_barrier();
  }
}

void expect_one_rank_board(const Board& board, int generations, std::string_view mode) {
  const std::vector<Cell> whole = board.gather();
  const bool right = partita::apps::decide_on_rank_0(board.comm(), [&] {
    OneRank one_rank(board.game());
    const auto found = difference(board.division(), whole, one_rank.after(generations));
    if (found) std::printf("%s: %s\n", std::string(mode).c_str(), found->c_str());
    return !found;
  });
  EXPECT_TRUE(right) << mode;
}

TEST(Life, every_mode_gives_the_board_that_one_rank_plays) {
  for (const Boundary boundary : {Boundary::periodic, Boundary::bounded}) {
    for (const Division& division : divisions_of(21, 26)) {
      Board board(MPI_COMM_WORLD, division, {21, 26, boundary, 40, 7}, 4);
      for (const HostMode& mode : host_modes) {
        EXPECT_EQ(9, board.play(mode.name, 9).generations);
        expect_one_rank_board(board, 9, mode.name);
      }
    }
  }
}

/// A glider comes back to its place after as many times four generations as a periodic board has cells a side, having
/// crossed every rank's rim and corner.
TEST(Life, a_glider_goes_around_the_board) {
  constexpr int side = 12;
  OneRank board({side, side, Boundary::periodic, 0, 0});
  const Field& start = board.after(0);
  const std::vector<std::pair<int, int>> glider = {{1, 2}, {2, 3}, {3, 1}, {3, 2}, {3, 3}};
  for (const auto& [row, column] : glider) start.at(row, column) = 1;
  const Field& end = board.after(4 * side);
  int living = 0;
  for (int row = 1; row <= side; ++row) {
    for (int column = 1; column <= side; ++column) living += static_cast<int>(end.at(row, column));
  }
  EXPECT_EQ(5, living);
  for (const auto& [row, column] : glider) EXPECT_EQ(1U, end.at(row, column)) << row << ", " << column;
}

TEST(Life, a_cell_that_differs_is_named_with_its_rank) {
  OneRank one_rank({4, 6, Boundary::bounded, 50, 3});
  const Field& expected = one_rank.after(2);
  std::vector<Cell> got;
  for (int row = 1; row <= 4; ++row) got.insert(got.end(), &expected.at(row, 1), &expected.at(row, 7));
  const Division division{4, 6, 2, 2};
  EXPECT_FALSE(difference(division, got, expected));
  got[15] ^= 1U;
  got[23] ^= 1U;
  const auto found = difference(division, got, expected);
  ASSERT_TRUE(found);
  EXPECT_EQ(0U, found->find("2 cells differ")) << *found;
  EXPECT_NE(std::string::npos, found->find("row 2, column 3, played by rank 3")) << *found;
}

TEST(Life, a_result_holds_the_times_of_the_run_and_its_line_those_of_a_step) {
  Board board(MPI_COMM_WORLD, {8, 8, ranks(), 1}, {8, 8, Boundary::periodic, 50, 1}, 1);
  const Result result = summarise(board, host_modes[0].name, {10, 20.0 + rank(), 5.0 + rank(), 1.0});
  if (rank() != 0) return;
  EXPECT_EQ(result.time_s, 19.0 + ranks());
  EXPECT_EQ(result.step_s, result.time_s / 10);
  EXPECT_EQ(result.halo_max_s, 4.0 + ranks());
  const std::string halo = fmt::format("halo {:.2f} us", 1e5 * result.halo_median_s);
  EXPECT_NE(describe(result).find(halo), std::string::npos) << describe(result);
}

TEST(LifePicture, shows_cells_as_squares_or_squares_of_cells_as_shares) {
  const std::vector<Cell> cells = {1, 0, 0, 0, 0, 1};  // 2 x 3
  const partita::apps::EmberMap map;
  const auto large = draw(cells, 2, 3, 7);
  EXPECT_EQ(6, large.width);
  EXPECT_EQ(4, large.height);
  EXPECT_EQ(map.at(1.0), large.pixels[7]);
  EXPECT_EQ(map.at(0.0), large.pixels[2]);
  const auto small = draw(cells, 2, 3, 2);
  EXPECT_EQ(2, small.width);
  EXPECT_EQ(1, small.height);
  EXPECT_EQ(map.at(0.25), small.pixels[0]);
  EXPECT_EQ(map.at(0.5), small.pixels[1]);
}

int run(const std::vector<std::string>& arguments) {
  return partita::test::run_app(command, "life", arguments);
}

TEST(LifeCommand, ends_with_code_2_on_every_rank_for_options_that_make_no_sense) {
  const std::vector<std::vector<std::string>> bad = {
      {"--mode", "stream"},
      {"--frobnicate"},
      {"leftover"},
      {"--size", "0", "5"},
      {"--size", "12"},
      {"--boundary", "x"},
      {"--density", "101"},
      {"--ranks", "7", "11"},
      {"--partitions", "0"},
      {"--output", ""},
      {"--size", "1", "100", "--ranks", "2", "1"},
      {"--generations", "0"},
      {"--device", "gpu"},
      {"--seed", "-1"},
      {"--repeat", "0"},
  };
  for (const auto& arguments : bad) EXPECT_EQ(run(arguments), 2) << arguments.front();
}

TEST(LifeCommand, says_how_many_bytes_a_board_takes_that_no_memory_holds) {
  testing::internal::CaptureStderr();
  const int code = run({"--size", "16777216", "16777216"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2);
  if (rank() != 0) return;
  for (const char* words : {"16777216 x 16777216", "bytes", "--no-verify", "--no-picture"}) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

TEST(LifeCommand, plays_on_blocks_one_cell_wide) {
  const std::string count = std::to_string(ranks());
  EXPECT_EQ(run({"--size", count, "5", "--ranks", count, "1", "--generations", "6", "--no-picture"}), 0);
}

TEST(LifeCommand, runs_all_modes_and_writes_the_picture_and_the_record) {
  const std::string prefix = partita::test::temporary_prefix("life_test");
  EXPECT_EQ(run({"--size", "24", "20", "--generations", "8", "--repeat", "2", "--json", "--output", prefix}), 0);
  if (rank() != 0) return;
  EXPECT_GT(std::filesystem::file_size(prefix + ".png"), 1000U);
  std::ifstream record_file(prefix + ".json");
  const auto record = nlohmann::json::parse(record_file);
  EXPECT_EQ(record["app"], "life");
  EXPECT_EQ(record["job"]["ranks"], ranks());
  EXPECT_EQ(record["game"]["generations"], 8);
  const auto& north = record["job"]["halos_of_rank_0"]["north"];
  EXPECT_EQ(north["cells"], record["job"]["block_of_rank_0"][1]);
  EXPECT_EQ(north["partitions"], 10) << "the divisor of 10 or 20 cells that is nearest to the 8 wanted";
  for (const HostMode& mode : host_modes) {
    const auto& runs = record["runs"][std::string(mode.name)];
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0]["identical_to_one_rank"], true);
    EXPECT_GT(runs[0]["step_s"], 0.0);
    EXPECT_GT(runs[0]["time_s"], runs[0]["halo_max_s"]);
  }
  std::filesystem::remove(prefix + ".json");
  std::filesystem::remove(prefix + ".png");
}

TEST(LifeCommand, ends_with_code_1_on_every_rank_when_a_file_cannot_be_written) {
  EXPECT_EQ(
      run({"--size", "16", "16", "--mode", "queue-ready", "--generations", "1", "--output", "/nonexistent/folder/x"}),
      1);
}

}  // namespace
}  // namespace life
