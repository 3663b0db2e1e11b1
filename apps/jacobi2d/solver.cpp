#include "apps/jacobi2d/solver.hpp"

#include <fmt/format.h>
#include <omp.h>

#include "apps/support/progress.hpp"

namespace jacobi2d {
namespace {

using partita::apps::Progress;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string describe(const Outcome& outcome, const Limits& limits, double time_s) {
  const std::string residual =
      outcome.history.empty()
          ? "residual not yet known"
          : fmt::format("residual {:.3e} at {}", outcome.history.back().residual, outcome.history.back().iteration);
  return fmt::format("iteration {} of at most {}, {}, {:.0f} s", outcome.iterations, limits.max_iterations, residual,
                     time_s);
}

double largest_over_ranks(MPI_Comm comm, double value) {
  double largest = 0.0;
  MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, comm);
  return largest;
}

}  // namespace

HaloClock::HaloClock() : in_parallel_(static_cast<std::size_t>(omp_get_max_threads())) {}

void HaloClock::add(std::chrono::nanoseconds time) {
  if (omp_in_parallel() != 0) {
    in_parallel_[static_cast<std::size_t>(omp_get_thread_num())].time += time;
  } else {
    alone_ += time;
  }
}

double HaloClock::seconds() const {
  std::chrono::nanoseconds shared{0};
  for (const Slot& slot : in_parallel_) shared += slot.time;
  const double threads = static_cast<double>(in_parallel_.size());
  return std::chrono::duration<double>(alone_).count() + std::chrono::duration<double>(shared).count() / threads;
}

Outcome iterate(const Plate& plate, const Limits& limits, const std::string& mode, const Step& step) {
  Outcome outcome;
  Progress progress(plate.rank() == 0);
  MPI_Barrier(plate.comm());
  const auto begin = Clock::now();

  while (outcome.iterations < limits.max_iterations && !outcome.converged) {
    const int iteration = outcome.iterations + 1;
    const bool check = iteration % limits.check_every == 0 || iteration == limits.max_iterations;
    const double change = step(outcome.iterations % 2, check ? Measure::change : Measure::nothing);
    outcome.iterations = iteration;
    if (check) {
      const double residual = largest_over_ranks(plate.comm(), change);
      outcome.history.push_back({iteration, residual, seconds_since(begin)});
      outcome.converged = residual <= limits.tolerance;
    }
    if (progress.due()) Progress::say(mode, describe(outcome, limits, seconds_since(begin)));
  }

  MPI_Barrier(plate.comm());
  outcome.time_s = seconds_since(begin);
  return outcome;
}

}  // namespace jacobi2d
