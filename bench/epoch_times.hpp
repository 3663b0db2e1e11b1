// When each partition of an epoch was handed over, and when it was there: what the four partitioned metrics are made
// of.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/intervals.hpp"
#include "bench/lane.hpp"

namespace partita::bench {

/// The moments of one epoch, all on rank 0's clock, in nanoseconds.
struct EpochTimes {
  std::vector<std::int64_t> handed;   ///< per partition: given to the subject, just before the call that does it
  std::vector<std::int64_t> arrived;  ///< per partition: the receiver saw it
  std::int64_t computed = 0;          ///< the last partition's computing ended
  std::int64_t complete = 0;          ///< the waits of both sides have returned

  /// From handed to arrived, one for each partition.
  std::vector<Interval> transfers() const;
};

/// How the receiver learns of arrivals: one partition at a time, or all by the wait alone.
enum class Watching : std::uint8_t { partitions, whole };

/// A measurement of single epochs from rank 0 to rank 1, whose figure comes from the epoch's times.
class EpochMeasurement : public LaneMeasurement {
 public:
  EpochMeasurement(Job& job, Subject& subject, const Case& c, Watching watching);

  double sample(const Round& round) final;

 protected:
  /// The sample's figure; on rank 0 only.
  virtual double figure(const EpochTimes& times) const = 0;

 private:
  void send(const std::vector<double>& delays_us);
  void receive();
  void watch_partitions();
  void gather();

  Watching watching_;
  Lane& lane_;
  ClockOffset offset_;
  EpochTimes times_;
};

/// The defaults of the benchmarks that are about overlap: each thread computes 1 ms and up to 40 % more.
void compute_unevenly(Options& options);

}  // namespace partita::bench
