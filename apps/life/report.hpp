// What a run tells: the figures of each mode, and the comparison.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/life/board.hpp"
#include "apps/support/console.hpp"

namespace life {

/// One run of one mode, over all ranks.
struct Result {
  std::string mode;
  int generations = 0;
  double time_s = 0.0;                           ///< of all generations, of the slowest rank
  double step_s = 0.0;                           ///< of it, for a generation
  double halo_median_s = 0.0, halo_max_s = 0.0;  ///< of it, over the ranks
  double setup_s = 0.0;                          ///< of the slowest rank, before time_s
  partita::apps::Check check = partita::apps::Check::skipped;
};

/// Puts together what the ranks measured; the result is complete on rank 0. Collective.
Result summarise(const Board& board, std::string_view mode, const Outcome& outcome);

/// One line about one run.
std::string describe(const Result& result);

/// The table of all modes, one line each, compared with the first.
std::string comparison_table(std::span<const Result> results);

/// How a whole board, row by row, differs from the one that one rank played, as a sentence; nothing where it does not.
std::optional<std::string> difference(const partita::apps::Division& division, std::span<const Cell> got,
                                      const Field& expected);

}  // namespace life
