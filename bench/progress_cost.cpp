#include "bench/progress_cost.hpp"

#include <partita/partita.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace partita::bench {

namespace {

constexpr std::chrono::milliseconds asleep(200);

/// The processor time of all threads of the process.
std::int64_t processor_ns() {
  std::timespec spent{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0) {
    throw Failure("The system does not tell the processor time of this process.");
  }
  return std::int64_t{spent.tv_sec} * 1'000'000'000 + spent.tv_nsec;
}

double step_us(int steps) {
  const std::int64_t begin_ns = now_ns();
  for (int i = 0; i < steps; ++i) check(Partita_Progress(nullptr), "Partita_Progress");
  return static_cast<double>(now_ns() - begin_ns) / 1000 / steps;
}

double processor_us_in_a_second() {
  const std::int64_t spent_before_ns = processor_ns();
  const std::int64_t begin_ns = now_ns();
  std::this_thread::sleep_for(asleep);
  const std::int64_t end_ns = now_ns();
  return static_cast<double>(processor_ns() - spent_before_ns) / static_cast<double>(end_ns - begin_ns) * 1e6;
}

/// Steps in a sample are an option; a sample of the others is one sleep. 8,000 bytes divide into every default.
void set_progress_cost_defaults(Options& options) {
  options.min_bytes = 8000;
  options.max_bytes = 8000;
  options.partitions = {1, 100, 1000};
  options.iterations = 5;
  options.warmup = 1;
  options.batch = 1000;
}

}  // namespace

double ProgressMeasurement::sample(const Round& round) {
  open();
  job_.barrier();
  const double value = figure_ == ProgressFigure::step ? step_us(round.batch) : processor_us_in_a_second();
  job_.barrier();
  close();
  return value;
}

Benchmark progress_benchmark_of(std::string_view name, std::string_view what) {
  Benchmark benchmark{};
  benchmark.name = name;
  benchmark.what = what;
  benchmark.unit = "us";
  benchmark.compares_subjects = false;
  benchmark.set_defaults = set_progress_cost_defaults;
  benchmark.metric_title = "x_idle";
  benchmark.metric = times_larger;
  return benchmark;
}

}  // namespace partita::bench
