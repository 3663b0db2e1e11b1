#include "apps/cg/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/support/rank_values.hpp"

namespace cg {
namespace {

std::string verdict(std::span<const Result> runs) {
  if (!runs.front().checked) return "not checked";
  const auto furthest = std::ranges::max(runs, {}, &Result::from_one_rank);
  const bool right = std::ranges::all_of(runs, &Result::right);
  return fmt::format("{}{:.1e} off", right ? "" : "WRONG: ", furthest.from_one_rank);
}

std::string interval(const partita::apps::Mean& time) {
  return time.half_width ? fmt::format("± {:.2f}", 1e6 * *time.half_width) : "of one run";
}

}  // namespace

Result summarise(MPI_Comm comm, std::string_view mode, const Outcome& outcome) {
  const std::vector<double> times = partita::apps::gather_values(comm, outcome.time_s);
  const std::vector<double> setup_times = partita::apps::gather_values(comm, outcome.setup_s);
  Result result;
  result.mode = mode;
  result.iterations = outcome.iterations;
  result.time_s = partita::apps::largest_of(times);
  result.iteration_s = result.time_s / std::max(outcome.iterations, 1);
  result.setup_s = partita::apps::largest_of(setup_times);
  result.residuals = outcome.residuals;
  result.converged = outcome.converged;
  return result;
}

double difference(std::span<const double> solution, std::span<const double> expected) {
  double furthest = 0, largest = std::numeric_limits<double>::min();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(solution[i] - expected[i]);
    if (std::isnan(off)) return std::numeric_limits<double>::infinity();
    furthest = std::max(furthest, off);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return furthest / largest;
}

std::vector<double> known_solution(const Problem& problem) {
  std::vector<double> known;
  known.reserve(static_cast<std::size_t>(problem.rows) * static_cast<std::size_t>(problem.columns));
  for (int row = 0; row < problem.rows; ++row) {
    for (int column = 0; column < problem.columns; ++column) known.push_back(solution_at(problem, row, column));
  }
  return known;
}

std::string complaint(const Result& result) {
  if (!result.converged) {
    return fmt::format(
        "mode {} has not converged after {} iterations: the residual is {:.2e} of the first one; more --iterations "
        "help, and --no-verify lets it be",
        result.mode, result.iterations, result.residuals.back());
  }
  if (!(result.from_one_rank <= rank_tolerance)) {
    return fmt::format(
        "wrong result in mode {}: the solution is {:.2e} of the largest number off the one that one rank finds; at "
        "most {:.0e} is right",
        result.mode, result.from_one_rank, rank_tolerance);
  }
  return fmt::format(
      "wrong result in mode {}: the solution is {:.2e} of the largest number off the known one; at most {:.0e} is "
      "right",
      result.mode, result.from_known, known_tolerance);
}

std::string describe(const Result& result) {
  return fmt::format("{:<11} {} iterations, {:.3f} s, {:.2f} us an iteration, residual {:.1e}", result.mode,
                     result.iterations, result.time_s, 1e6 * result.iteration_s, result.residuals.back());
}

partita::apps::Mean iteration_time(std::span<const Result> runs) {
  std::vector<double> times;
  times.reserve(runs.size());
  for (const Result& run : runs) times.push_back(run.iteration_s);
  return partita::apps::mean_of(times);
}

std::string comparison_table(std::span<const std::vector<Result>> runs) {
  std::string table = fmt::format("{:<11} {:>10} {:>12} {:>12} {:>9} {:>9} {:>9}  {}\n", "mode", "iterations",
                                  "iteration us", "95 %", "setup ms", "speed-up", "residual", "one rank's solution");
  const double first = runs.empty() ? 0.0 : iteration_time(runs.front()).mean;
  for (const std::vector<Result>& of_mode : runs) {
    const partita::apps::Mean time = iteration_time(of_mode);
    const Result& last = of_mode.back();
    table += fmt::format("{:<11} {:>10} {:>12.2f} {:>12} {:>9.3f} {:>8.2f}x {:>9.1e}  {}\n", last.mode, last.iterations,
                         1e6 * time.mean, interval(time), 1e3 * last.setup_s, time.mean > 0 ? first / time.mean : 0.0,
                         last.residuals.back(), verdict(of_mode));
  }
  return table;
}

}  // namespace cg
