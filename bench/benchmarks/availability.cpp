// availability (Temuçin, Grant, Afsahi, ICPP 2022): which share of a whole send's time the application has for itself,
// because the transfers were over when its computing was.
#include "bench/benchmarks/all.hpp"
#include "bench/epoch_times.hpp"

namespace partita::bench {

namespace {

/// Microseconds in which partitions were on their way after the last thread had computed.
class TimeAfterComputing final : public EpochMeasurement {
 public:
  TimeAfterComputing(Job& job, Subject& subject, const Case& c)
      : EpochMeasurement(job, subject, c, Watching::partitions) {}

 protected:
  double figure(const EpochTimes& times) const override {
    return static_cast<double>(covered_ns(after(times.transfers(), times.computed))) / 1000;
  }
};

/// In percent of what a persistent send takes, all of it after the computing.
double availability_percent(double median_us, double persistent_us) {
  return persistent_us > 0 ? 100 * (1 - median_us / persistent_us) : 0;
}

}  // namespace

Benchmark availability_benchmark() {
  return {.name = "availability",
          .what = "Share of a whole send's time that is free for the application after its computing",
          .unit = "us",
          .timed_in_batches = false,
          .lacks = {"--window", "--batch"},
          .set_defaults = compute_unevenly,
          .contenders = one_per_subject<TimeAfterComputing>,
          .metric_title = "Availability_%",
          .metric = availability_percent};
}

}  // namespace partita::bench
