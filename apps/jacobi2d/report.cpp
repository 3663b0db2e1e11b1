#include "apps/jacobi2d/report.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "apps/support/rank_values.hpp"

namespace jacobi2d {

using partita::apps::gather_values;
using partita::apps::largest_of;
using partita::apps::median_of;
Result summarise(const Plate& plate, std::string_view mode, const Outcome& outcome) {
  const std::vector<double> times = gather_values(plate.comm(), outcome.time_s);
  const std::vector<double> halo_times = gather_values(plate.comm(), outcome.halo_time_s);
  const std::vector<double> setup_times = gather_values(plate.comm(), outcome.setup_s);
  const std::vector<double> sweep_times = gather_values(plate.comm(), outcome.sweep_s);
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
                         results.front().time_s / result.time_s, partita::apps::text_of(result.check));
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
