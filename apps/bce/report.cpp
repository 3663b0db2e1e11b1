#include "apps/bce/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "apps/support/rank_values.hpp"

namespace bce {
namespace {

using partita::apps::Check;

double us_a_step(double run_s, const Result& result) {
  return 1e6 * run_s / result.steps;
}

std::string verdict(const Result& result) {
  if (result.check == Check::skipped) return "not checked";
  return fmt::format("{}{:.1e} off", result.check == Check::failed ? "WRONG: " : "", result.difference);
}

}  // namespace

Result summarise(const Training& training, std::string_view mode, const Outcome& outcome) {
  const std::vector<double> times = partita::apps::gather_values(training.comm(), outcome.time_s);
  const std::vector<double> exposed_times = partita::apps::gather_values(training.comm(), outcome.exposed_s);
  const std::vector<double> setup_times = partita::apps::gather_values(training.comm(), outcome.setup_s);

  Result result;
  result.mode = mode;
  result.steps = static_cast<int>(outcome.losses.size());
  result.time_s = partita::apps::largest_of(times);
  result.step_s = result.time_s / result.steps;
  result.exposed_median_s = partita::apps::median_of(exposed_times);
  result.exposed_max_s = partita::apps::largest_of(exposed_times);
  result.setup_s = partita::apps::largest_of(setup_times);
  result.losses = outcome.losses;
  result.accuracy = outcome.accuracy;
  return result;
}

double difference(std::span<const double> weights, std::span<const double> expected) {
  double furthest = 0, largest = std::numeric_limits<double>::min();
  for (std::size_t f = 0; f < expected.size(); ++f) {
    const double off = std::abs(weights[f] - expected[f]);
    if (std::isnan(off)) return off;
    furthest = std::max(furthest, off);
    largest = std::max(largest, std::abs(expected[f]));
  }
  return furthest / largest;
}

std::string describe(const Result& result) {
  return fmt::format(
      "{:<11} {} steps, {:.3f} s, {:.2f} us a step, exposed {:.2f} us; loss {:.4f} to {:.4f}, accuracy {:.1f} %",
      result.mode, result.steps, result.time_s, us_a_step(result.time_s, result),
      us_a_step(result.exposed_median_s, result), result.losses.front(), result.losses.back(), 100 * result.accuracy);
}

std::string comparison_table(std::span<const Result> results) {
  std::string table =
      fmt::format("{:<11} {:>9} {:>9} {:>10} {:>18} {:>15} {:>9} {:>9}  {}\n", "mode", "steps", "time s", "step us",
                  "exposed us, median", "exposed us, max", "setup ms", "speed-up", "one rank's weights");
  for (const Result& result : results) {
    table += fmt::format("{:<11} {:>9} {:>9.3f} {:>10.2f} {:>18.2f} {:>15.2f} {:>9.3f} {:>8.2f}x  {}\n", result.mode,
                         result.steps, result.time_s, us_a_step(result.time_s, result),
                         us_a_step(result.exposed_median_s, result), us_a_step(result.exposed_max_s, result),
                         1e3 * result.setup_s, results.front().time_s / result.time_s, verdict(result));
  }
  return table;
}

}  // namespace bce
