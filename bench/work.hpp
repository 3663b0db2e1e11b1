// Computed delays: busy work of a calibrated length, drawn from a distribution for each thread and epoch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace partita::bench {

/// Arithmetic that keeps a core busy for a given time: computed, not slept, so that it competes for the core
/// as an application would.
class Work {
 public:
  /// Measures how long a step takes on this machine; some milliseconds.
  static Work calibrated();

  void compute(double us) const;
  double steps_per_us() const { return steps_per_us_; }

 private:
  explicit Work(double steps_per_us) : steps_per_us_(steps_per_us) {}
  double steps_per_us_;
};

enum class DelayKind : std::uint8_t { none, single, uniform, gaussian };

/// How long each thread of the sender computes in an epoch before all its partitions are marked:
///   none      compute_us
///   single    compute_us, and one thread, another one each epoch at random, noise_percent more
///   uniform   compute_us plus a share of noise_percent drawn evenly from [0, 1)
///   gaussian  a normal draw around compute_us whose standard deviation is noise_percent of it, never below 0
struct DelayShape {
  DelayKind kind = DelayKind::none;
  double compute_us = 0;
  double noise_percent = 0;
};

std::string_view name(DelayKind kind);

/// The times in microseconds, one a thread. The same `seed` and `epoch` give the same times, so that all
/// subjects of a round meet the same delays.
std::vector<double> draw_delays(const DelayShape& shape, int threads, std::uint64_t seed, std::uint64_t epoch);

}  // namespace partita::bench
