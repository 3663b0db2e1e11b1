// What a run tells: the figures of each mode, and the comparison.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cg/solver.hpp"
#include "apps/support/mean.hpp"

namespace cg {

/// The largest differences, by the largest number of the solution, at which a check passes: from the solution that one
/// rank finds, and from the known one.
inline constexpr double rank_tolerance = 1e-10, known_tolerance = 1e-9;

/// One run of one mode, over all ranks.
struct Result {
  std::string mode;
  int iterations = 0;
  double time_s = 0;              ///< of all iterations, of the slowest rank
  double iteration_s = 0;         ///< of it, for an iteration
  double setup_s = 0;             ///< of the slowest rank, before time_s
  std::vector<double> residuals;  ///< of x = 0, which is 1, and after each batch
  bool converged = false;
  bool checked = false;
  double from_one_rank = 0, from_known = 0;  ///< the largest differences, where checked

  bool right() const {
    return !checked || (converged && from_one_rank <= rank_tolerance && from_known <= known_tolerance);
  }
};

/// Puts together what the ranks measured; the result is complete on rank 0. Collective.
Result summarise(MPI_Comm comm, std::string_view mode, const Outcome& outcome);

/// The largest difference between `solution` and `expected`, divided by the largest of `expected`; infinite where one
/// is no number.
double difference(std::span<const double> solution, std::span<const double> expected);
/// The known solution, row by row.
std::vector<double> known_solution(const Problem& problem);

/// What is wrong with a run that is not right, as a sentence.
std::string complaint(const Result& result);
/// One line about one run.
std::string describe(const Result& result);
/// Seconds of an iteration in the runs of a mode.
partita::apps::Mean iteration_time(std::span<const Result> runs);
/// The table of all modes, one line each, compared with the first. `runs` has an element for each, of all its runs.
std::string comparison_table(std::span<const std::vector<Result>> runs);

}  // namespace cg
