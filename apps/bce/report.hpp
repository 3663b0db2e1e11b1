// What a run tells: the figures of each mode, and the comparison.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bce/training.hpp"
#include "apps/support/console.hpp"

namespace bce {

/// The largest difference from the weights that one rank trains, by the largest of these, at which a check passes.
inline constexpr double weight_tolerance = 1e-6;

/// One run of one mode, over all ranks.
struct Result {
  std::string mode;
  int steps = 0;
  double time_s = 0;                               ///< of all steps, of the slowest rank
  double step_s = 0;                               ///< of it, for a step
  double exposed_median_s = 0, exposed_max_s = 0;  ///< of it, over the ranks
  double setup_s = 0;                              ///< of the slowest rank, before time_s
  std::vector<double> losses;                      ///< before each step
  double accuracy = 0;                             ///< of the weights, from 0 to 1
  double difference = 0;  ///< from one rank's weights, the largest of all ranks; 0 where not checked
  partita::apps::Check check = partita::apps::Check::skipped;
};

/// Puts together what the ranks measured; the result is complete on rank 0. Collective.
Result summarise(const Training& training, std::string_view mode, const Outcome& outcome);

/// The largest difference between `weights` and `expected`, divided by the largest of `expected`. Not a number where
/// one of them is none.
double difference(std::span<const double> weights, std::span<const double> expected);

/// One line about one run.
std::string describe(const Result& result);

/// The table of all modes, one line each, compared with the first.
std::string comparison_table(std::span<const Result> results);

}  // namespace bce
