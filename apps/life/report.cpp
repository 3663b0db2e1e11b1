#include "apps/life/report.hpp"

#include <fmt/format.h>

#include "apps/support/rank_values.hpp"

namespace life {
namespace {

double us_a_step(double run_s, const Result& result) {
  return 1e6 * run_s / result.generations;
}

}  // namespace

Result summarise(const Board& board, std::string_view mode, const Outcome& outcome) {
  const std::vector<double> times = partita::apps::gather_values(board.comm(), outcome.time_s);
  const std::vector<double> halo_times = partita::apps::gather_values(board.comm(), outcome.halo_s);
  const std::vector<double> setup_times = partita::apps::gather_values(board.comm(), outcome.setup_s);

  Result result;
  result.mode = mode;
  result.generations = outcome.generations;
  result.time_s = partita::apps::largest_of(times);
  result.step_s = result.time_s / outcome.generations;
  result.halo_median_s = partita::apps::median_of(halo_times);
  result.halo_max_s = partita::apps::largest_of(halo_times);
  result.setup_s = partita::apps::largest_of(setup_times);
  return result;
}

std::string describe(const Result& result) {
  return fmt::format("{:<15} {} generations, {:.3f} s, {:.2f} us a step, halo {:.2f} us", result.mode,
                     result.generations, result.time_s, us_a_step(result.time_s, result),
                     us_a_step(result.halo_median_s, result));
}

std::string comparison_table(std::span<const Result> results) {
  std::string table =
      fmt::format("{:<15} {:>11} {:>9} {:>9} {:>15} {:>12} {:>9} {:>9}  {}\n", "mode", "generations", "time s",
                  "step us", "halo us, median", "halo us, max", "setup ms", "speed-up", "one-rank board");
  for (const Result& result : results) {
    table +=
        fmt::format("{:<15} {:>11} {:>9.3f} {:>9.2f} {:>15.2f} {:>12.2f} {:>9.3f} {:>8.2f}x  {}\n", result.mode,
                    result.generations, result.time_s, us_a_step(result.time_s, result),
                    us_a_step(result.halo_median_s, result), us_a_step(result.halo_max_s, result), 1e3 * result.setup_s,
                    results.front().time_s / result.time_s, partita::apps::text_of(result.check));
  }
  return table;
}

std::optional<std::string> difference(const partita::apps::Division& division, std::span<const Cell> got,
                                      const Field& expected) {
  std::int64_t cells = 0;
  std::string first;
  auto cell = got.begin();
  for (int row = 0; row < division.rows; ++row) {
    for (int column = 0; column < division.columns; ++column, ++cell) {
      const Cell right = expected.at(row + 1, column + 1);
      if (*cell == right) continue;
      if (cells++ > 0) continue;
      first = fmt::format("row {}, column {}, played by rank {}: expected {}, got {}", row, column,
                          partita::apps::owner_of(division, row, column), right, *cell);
    }
  }
  if (cells == 0) return std::nullopt;
  return fmt::format("{} cells differ from the board that one rank plays; the first is {}", cells, first);
}

}  // namespace life
