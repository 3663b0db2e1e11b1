// What a run tells: the figures of each mode, the comparison, and the residual history as a file.
#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/jacobi2d/solver.hpp"
#include "apps/support/console.hpp"
#include "apps/support/rank_values.hpp"

namespace jacobi2d {

using partita::apps::Check;
using partita::apps::median_run;

/// One run of one mode, over all ranks.
struct Result {
  std::string mode;
  int iterations = 0;
  bool converged = false;
  double residual = 0.0;
  double time_s = 0.0;  ///< of the slowest rank
  double gflops = 0.0;
  double halo_median_s = 0.0, halo_max_s = 0.0;  ///< over the ranks
  double setup_s = 0.0;                          ///< of the slowest rank, before time_s; GPU modes only
  double sweep_s = 0.0;                          ///< of the slowest rank, an iteration without a halo; 0: not measured
  Check check = Check::skipped;
  std::vector<Residual> history;
};

/// Puts together what the ranks measured; the result is complete on rank 0. Collective.
Result summarise(const Plate& plate, std::string_view mode, const Outcome& outcome);

/// One line about one run.
std::string describe(const Result& result);

/// The table of all modes, one line each, compared with the first.
std::string comparison_table(std::span<const Result> results);

/// Writes mode, iteration, residual and time of every look at the residual. Throws std::runtime_error with a sentence
/// if that fails.
void write_history(std::span<const Result> results, const std::string& path);

}  // namespace jacobi2d
