// Time intervals on one clock and how much of the time line they cover together.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::bench {

/// From `begin_ns` to `end_ns`; empty where the end is not after the beginning.
struct Interval {
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

/// The time that lies in at least one interval: overlaps count once, gaps not at all.
std::int64_t covered_ns(std::vector<Interval> intervals);

/// The part of each interval from `moment_ns` on.
std::vector<Interval> after(const std::vector<Interval>& intervals, std::int64_t moment_ns);

}  // namespace partita::bench
