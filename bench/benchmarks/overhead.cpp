// overhead (Temuçin, Grant, Afsahi, ICPP 2022): communication time of a partitioned message over that of one whole
// send.
#include "bench/benchmarks/all.hpp"
#include "bench/epoch_times.hpp"

namespace partita::bench {

namespace {

/// Microseconds in which at least one partition was on its way: handed over, and not yet seen by the receiver.
class CommunicationTime final : public EpochMeasurement {
 public:
  CommunicationTime(Job& job, Subject& subject, const Case& c)
      : EpochMeasurement(job, subject, c, Watching::partitions) {}

 protected:
  double figure(const EpochTimes& times) const override {
    return static_cast<double>(covered_ns(times.transfers())) / 1000;
  }
};

}  // namespace

Benchmark overhead_benchmark() {
  return {.name = "overhead",
          .what = "Time in which partitions are on their way, over the time of one whole persistent send",
          .unit = "us",
          .timed_in_batches = false,
          .lacks = {"--window", "--batch"},
          .contenders = one_per_subject<CommunicationTime>,
          .metric_title = "Overhead",
          .metric = times_larger};
}

}  // namespace partita::bench
