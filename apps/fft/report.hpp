// What a run tells: the figures of each exchange, and the comparison.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fft/run.hpp"

namespace fft {

/// One run with one exchange, over all ranks.
struct Result {
  std::string exchange;
  int iterations = 0;
  double time_s = 0;               ///< of all iterations, of the slowest rank
  double iteration_s = 0;          ///< of it, for an iteration: a forward and an inverse transform
  double exchange_share = 0;       ///< of time_s, in calls of the exchange; the mean of the ranks
  double gflops = 0;               ///< 5 N log2 N operations for each of the transforms, in 10^9 a second
  double setup_s = 0;              ///< of the slowest rank, before time_s
  std::vector<std::string> links;  ///< of all ranks, ascending; empty where Partita does not tell
  bool checked = false;
  double spectrum_error = 0, input_error = 0;  ///< where checked

  bool right() const {
    return !checked || (spectrum_error <= tolerance && input_error <= tolerance_after(iterations + 1));
  }
};

/// The operations of one transform of N cells, as everybody counts them: 5 N log2 N.
double operations_of(const Extents& size);

/// Puts together what the ranks measured; the result is complete on rank 0. Collective.
Result summarise(MPI_Comm comm, const Extents& size, std::string_view exchange, const Outcome& outcome);

/// What is wrong with a run that is not right, as a sentence. `against`: what its spectrum was compared with.
std::string complaint(const Result& result, Against against);
/// One line about one run.
std::string describe(const Result& result);
/// The table of all exchanges, one line each, compared with its staged twin, or with the first where it has none.
std::string comparison_table(std::span<const Result> results);

}  // namespace fft
