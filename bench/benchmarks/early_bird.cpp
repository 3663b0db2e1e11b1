// early-bird (after Temuçin, Grant, Afsahi, ICPP 2022): which share of the message was there before the computing
// ended.
#include <algorithm>

#include "bench/benchmarks/all.hpp"
#include "bench/epoch_times.hpp"

namespace partita::bench {

namespace {

/// Percent of the message that the receiver had seen when the last thread had computed. The paper takes the share of
/// the time between handing over and arrival; that grows when a library merely holds partitions back, this does not.
class EarlyShare final : public EpochMeasurement {
 public:
  EarlyShare(Job& job, Subject& subject, const Case& c) : EpochMeasurement(job, subject, c, Watching::partitions) {}

 protected:
  double figure(const EpochTimes& times) const override {
    const auto early = std::count_if(times.arrived.begin(), times.arrived.end(),
                                     [&](std::int64_t arrived) { return arrived <= times.computed; });
    return 100.0 * static_cast<double>(early) / static_cast<double>(times.arrived.size());
  }
};

double percent_more(double median, double persistent) {
  return median - persistent;
}

}  // namespace

Benchmark early_bird_benchmark() {
  return {.name = "early-bird",
          .what = "Share of the message that has arrived before the computing ends",
          .unit = "%",
          .larger_is_better = true,
          .timed_in_batches = false,
          .lacks = {"--window", "--batch"},
          .set_defaults = compute_unevenly,
          .contenders = one_per_subject<EarlyShare>,
          .metric_title = "more_than_persistent",
          .metric = percent_more};
}

}  // namespace partita::bench
