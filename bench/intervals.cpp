#include "bench/intervals.hpp"

#include <algorithm>

namespace partita::bench {

std::int64_t covered_ns(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  std::int64_t covered = 0;
  bool any = false;
  std::int64_t covered_until = 0;
  for (const Interval& interval : intervals) {
    const std::int64_t begin = any ? std::max(interval.begin_ns, covered_until) : interval.begin_ns;
    if (interval.end_ns <= begin) continue;
    covered += interval.end_ns - begin;
    covered_until = interval.end_ns;
    any = true;
  }
  return covered;
}

std::vector<Interval> after(const std::vector<Interval>& intervals, std::int64_t moment_ns) {
  std::vector<Interval> cut = intervals;
  for (Interval& interval : cut) interval.begin_ns = std::max(interval.begin_ns, moment_ns);
  return cut;
}

}  // namespace partita::bench
