#include "apps/support/mean.hpp"

#include <array>
#include <cmath>
#include <numeric>

namespace partita::apps {
namespace {

/// The quantile of 97.5 % of Student's t-distribution.
double quantile(std::size_t degrees_of_freedom) {
  constexpr std::array<double, 30> known{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                         2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees_of_freedom <= known.size()) return known[degrees_of_freedom - 1];
  // The first terms of its expansion around the normal distribution's.
  constexpr double z = 1.959964;
  return z + (z * z * z + z) / (4.0 * static_cast<double>(degrees_of_freedom));
}

}  // namespace

Mean mean_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return {mean, std::nullopt};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, quantile(values.size() - 1) * std::sqrt(squares / (count - 1) / count)};
}

}  // namespace partita::apps
