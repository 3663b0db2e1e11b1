#include "apps/fft/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/fft/modes.hpp"
#include "apps/support/rank_texts.hpp"
#include "apps/support/rank_values.hpp"

namespace fft {
namespace {

std::string verdict(const Result& result) {
  if (!result.checked) return "not checked";
  return fmt::format("{}{:.1e}, {:.1e} off", result.right() ? "" : "WRONG: ", result.spectrum_error,
                     result.input_error);
}

/// Its staged twin, else the first.
const Result& yardstick_of(const Result& result, std::span<const Result> results) {
  const std::string twin = std::string(plain_name(result.exchange)) + std::string(staged_suffix);
  const auto found = std::ranges::find(results, twin, &Result::exchange);
  return found == results.end() ? results.front() : *found;
}

/// Collective; on rank 0.
std::vector<std::string> links_of_all(MPI_Comm comm, const std::vector<std::string>& links) {
  const std::vector<std::string> texts = partita::apps::gather_texts(comm, fmt::format("{}", fmt::join(links, ", ")));
  return names_in(fmt::format("{}", fmt::join(texts, ", ")));
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double operations_of(const Extents& size) {
  const auto cells = static_cast<double>(cells_of(size));
  return 5 * cells * std::log2(cells);
}

Result summarise(MPI_Comm comm, const Extents& size, std::string_view exchange, const Outcome& outcome) {
  Result result;
  result.exchange = exchange;
  result.iterations = outcome.iterations;
  result.time_s = partita::apps::largest_of(partita::apps::gather_values(comm, outcome.time_s));
  result.setup_s = partita::apps::largest_of(partita::apps::gather_values(comm, outcome.setup_s));
  result.iteration_s = result.time_s / std::max(outcome.iterations, 1);
  const double exchange_s = mean_of(partita::apps::gather_values(comm, outcome.exchange_s));
  if (result.time_s > 0) {
    result.exchange_share = exchange_s / result.time_s;
    result.gflops = 2e-9 * operations_of(size) / result.iteration_s;
  }
  result.links = links_of_all(comm, outcome.links);
  result.checked = outcome.checked;
  result.spectrum_error = outcome.spectrum_error;
  result.input_error = outcome.input_error;
  return result;
}

std::string complaint(const Result& result, Against against) {
  if (!(result.spectrum_error <= tolerance)) {
    return fmt::format(
        "wrong spectrum with exchange {}: it is {:.2e} of its largest number off {}; at most {:.0e} is right",
        result.exchange, result.spectrum_error,
        against == Against::one_rank ? "the one that one rank computes" : "the definition of the transform", tolerance);
  }
  return fmt::format(
      "wrong result with exchange {}: after {} transforms there and back the cells are {:.2e} of the largest off the "
      "input; at most {:.0e} is right",
      result.exchange, result.iterations + 1, result.input_error, tolerance_after(result.iterations + 1));
}

std::string describe(const Result& result) {
  return fmt::format(
      "{:<18} {} iterations, {:.3f} s, {:.3f} ms an iteration, {:.2f} GFLOP/s, {:.0f} % in the exchange{}",
      result.exchange, result.iterations, result.time_s, 1e3 * result.iteration_s, result.gflops,
      100 * result.exchange_share, result.links.empty() ? "" : fmt::format(", link {}", fmt::join(result.links, ", ")));
}

std::string comparison_table(std::span<const Result> results) {
  std::string table = fmt::format("{:<18} {:>12} {:>9} {:>11} {:>9} {:>9}  {}\n", "exchange", "iteration ms", "GFLOP/s",
                                  "in exchange", "setup ms", "speed-up", "spectrum, input");
  for (const Result& result : results) {
    table += fmt::format("{:<18} {:>12.3f} {:>9.2f} {:>9.0f} % {:>9.3f} {:>8.2f}x  {}\n", result.exchange,
                         1e3 * result.iteration_s, result.gflops, 100 * result.exchange_share, 1e3 * result.setup_s,
                         result.iteration_s > 0 ? yardstick_of(result, results).iteration_s / result.iteration_s : 0.0,
                         verdict(result));
  }
  return table;
}

}  // namespace fft
