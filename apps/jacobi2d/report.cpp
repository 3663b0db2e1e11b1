#include "apps/jacobi2d/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace jacobi2d {
namespace {

std::vector<double> gather_values(const Plate& plate, double value) {
  std::vector<double> values(plate.rank() == 0 ? static_cast<std::size_t>(plate.division().ranks()) : 0);
  MPI_Gather(&value, 1, MPI_DOUBLE, values.data(), 1, MPI_DOUBLE, 0, plate.comm());
  return values;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

double largest_of(const std::vector<double>& values) {
  return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
}

std::string_view text_of(Check check) {
  switch (check) {
    case Check::skipped:
      return "not checked";
    case Check::passed:
      return "identical";
    case Check::failed:
      return "DIFFERENT";
  }
  return "";
}

}  // namespace

Result summarise(const Plate& plate, std::string_view mode, const Outcome& outcome) {
  const std::vector<double> times = gather_values(plate, outcome.time_s);
  const std::vector<double> halo_times = gather_values(plate, outcome.halo_time_s);
  const std::vector<double> setup_times = gather_values(plate, outcome.setup_s);
  const std::vector<double> sweep_times = gather_values(plate, outcome.sweep_s);
  const Division& division = plate.division();
  const double flops = flops_per_cell * division.rows * division.columns * outcome.iterations;

  Result result;
  result.mode = mode;
  result.iterations = outcome.iterations;
  result.converged = outcome.converged;
  result.residual = outcome.history.back().residual;
  result.time_s = largest_of(times);
  result.gflops = result.time_s > 0.0 ? flops / result.time_s * 1e-9 : 0.0;
  result.setup_s = largest_of(setup_times);
  result.sweep_s = largest_of(sweep_times);
  result.halo_median_s = median_of(halo_times);
  result.halo_max_s = largest_of(halo_times);
  result.history = outcome.history;
  return result;
}

const Result& median_run(const std::vector<Result>& runs) {
  std::vector<const Result*> by_time;
  by_time.reserve(runs.size());
  for (const Result& run : runs) by_time.push_back(&run);
  std::sort(by_time.begin(), by_time.end(), [](const Result* a, const Result* b) { return a->time_s < b->time_s; });
  return *by_time[(by_time.size() - 1) / 2];
}

std::string describe(const Result& result) {
  return fmt::format("{:<17} {} iterations, residual {:.3e} ({}), {:.3f} s, {:.2f} GFLOP/s, halo {:.3f} s", result.mode,
                     result.iterations, result.residual,
                     result.converged ? "tolerance reached" : "iteration limit reached", result.time_s, result.gflops,
                     result.halo_median_s);
}

std::string comparison_table(std::span<const Result> results) {
  std::string table = fmt::format("{:<17} {:>10} {:>9} {:>9} {:>14} {:>12} {:>9}  {}\n", "mode", "iterations", "time s",
                                  "GFLOP/s", "halo s, median", "halo s, max", "speed-up", "one-rank solution");
  for (const Result& result : results) {
    table += fmt::format("{:<17} {:>10} {:>9.3f} {:>9.2f} {:>14.3f} {:>12.3f} {:>8.2f}x  {}\n", result.mode,
                         result.iterations, result.time_s, result.gflops, result.halo_median_s, result.halo_max_s,
                         results.front().time_s / result.time_s, text_of(result.check));
  }
  return table;
}

void write_history(std::span<const Result> results, const std::string& path) {
  std::ofstream file(path);
  file << "mode,iteration,residual,time_s\n";
  for (const Result& result : results) {
    for (const Residual& look : result.history) {
      file << fmt::format("{},{},{:.9e},{:.6f}\n", result.mode, look.iteration, look.residual, look.time_s);
    }
  }
  file.close();
  if (!file)
    throw std::runtime_error(fmt::format("The residual history {} cannot be written: {}.", path, std::strerror(errno)));
}

}  // namespace jacobi2d
