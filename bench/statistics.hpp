// Median, percentiles and spread of raw samples.
#pragma once

#include <cstddef>
#include <span>

namespace partita::bench {

/// In the samples' own unit, but `spread_percent`: the interquartile range in percent of the median.
struct Statistics {
  std::size_t count = 0;
  double min = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
  double spread_percent = 0;
  double mean = 0;
  double deviation = 0;  ///< standard deviation of the samples

  static constexpr double readable_spread_percent = 30;
  /// Whether the median may be compared with others: half of the samples lie closer to it than the differences that one
  /// looks for.
  bool readable() const { return spread_percent <= readable_spread_percent; }
};

/// The value below which `fraction` (0 to 1) of `sorted` lies, interpolated between neighbours; `sorted` is not empty.
double percentile(std::span<const double> sorted, double fraction);

/// All zero for no samples. `p99` is the 99th percentile towards the bad end: of large values where
/// small ones are good (times), of small values where `larger_is_better` (bandwidths).
Statistics summarize(std::span<const double> samples, bool larger_is_better = false);

}  // namespace partita::bench
