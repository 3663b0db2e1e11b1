#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace partita::bench {

double percentile(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

Statistics summarize(std::span<const double> samples, bool larger_is_better) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());

  Statistics result;
  result.count = sorted.size();
  result.min = sorted.front();
  result.median = percentile(sorted, 0.5);
  result.p99 = percentile(sorted, larger_is_better ? 0.01 : 0.99);
  result.max = sorted.back();
  const double quartiles = percentile(sorted, 0.75) - percentile(sorted, 0.25);
  result.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  double squares = 0;
  for (const double value : sorted) squares += (value - result.mean) * (value - result.mean);
  if (sorted.size() > 1) result.deviation = std::sqrt(squares / static_cast<double>(sorted.size() - 1));
  if (result.median != 0) result.spread_percent = 100 * quartiles / std::abs(result.median);
  return result;
}

}  // namespace partita::bench
