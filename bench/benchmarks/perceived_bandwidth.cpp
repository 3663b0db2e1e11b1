// perceived-bandwidth (Temuçin, Grant, Afsahi, ICPP 2022): bytes of the whole message over the time from the last
// partition's readiness to the end: the bandwidth that a network would need to do the same without early transfers.
#include "bench/benchmarks/all.hpp"
#include "bench/epoch_times.hpp"

namespace partita::bench {

namespace {

/// Microseconds from the end of the last computing to the return of both sides' waits. What the last marking call
/// itself takes counts, since it may move data.
class TimeAfterLast final : public EpochMeasurement {
 public:
  TimeAfterLast(Job& job, Subject& subject, const Case& c) : EpochMeasurement(job, subject, c, Watching::whole) {}

 protected:
  double figure(const EpochTimes& times) const override {
    return static_cast<double>(times.complete - times.computed) / 1000;
  }
};

double perceived_megabytes_per_second(double us, const Case& c, const Options&) {
  return us > 0 ? static_cast<double>(c.size_bytes) / us : 0;
}

}  // namespace

Benchmark perceived_bandwidth_benchmark() {
  return {.name = "perceived-bandwidth",
          .what = "Bytes of the message over the time from the last partition's readiness to completion",
          .unit = "MB/s",
          .larger_is_better = true,
          .timed_in_batches = false,
          .lacks = {"--window", "--batch"},
          .set_defaults = compute_unevenly,
          .contenders = one_per_subject<TimeAfterLast>,
          .value = perceived_megabytes_per_second,
          .metric_title = "x_persistent",
          .metric = times_larger};
}

}  // namespace partita::bench
