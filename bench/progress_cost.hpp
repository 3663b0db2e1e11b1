// What the progress engine costs: the time of its steps, and the processor time of a process that sleeps.
#pragma once

#include <mpi.h>

#include <utility>

#include "bench/measurement.hpp"

namespace partita::bench {

/// What a contender measures while its epochs are open.
enum class ProgressFigure : std::uint8_t { step, sleeping };

inline constexpr std::pair<ProgressFigure, const char*> progress_figures[] = {{ProgressFigure::step, "step"},
                                                                              {ProgressFigure::sleeping, "asleep"}};

/// Requests that are matched and of which no epoch is open, beside those of the measurements.
inline constexpr int idle_requests = 1000;

/// Opens epochs of its own, if any, measures, and lets them end.
class ProgressMeasurement : public Measurement {
 public:
  ProgressMeasurement(Job& job, ProgressFigure figure) : job_(job), figure_(figure) {}

  /// Microseconds of a step, the mean of round.batch; or of processor time in a second asleep, all threads together.
  double sample(const Round& round) final;

 protected:
  /// On return both ranks' epochs are open. `epoch` is the round's.
  virtual void open() = 0;
  virtual void close() = 0;

  Job& job_;

 private:
  ProgressFigure figure_;
};

/// The options and the shape that the benchmarks of the progress engine share.
Benchmark progress_benchmark_of(std::string_view name, std::string_view what);

}  // namespace partita::bench
