// Which transport partitions of an epoch have been put.
#pragma once

#include <cstdint>
#include <map>

#include "link/plan.hpp"

namespace partita::link::direct {

/// Those that were put, in whatever order. One thread at a time.
class PutTransports {
 public:
  void clear() {
    before_gap_ = 0;
    behind_gap_.clear();
  }
  /// None of `run` was put before.
  void add(Range run) {
    if (run.begin != before_gap_) {
      behind_gap_.emplace(run.begin, run.end);
      return;
    }
    before_gap_ = run.end;
    for (auto next = behind_gap_.begin(); next != behind_gap_.end() && next->first == before_gap_;) {
      before_gap_ = next->second;
      next = behind_gap_.erase(next);
    }
  }
  /// How many there are before the first one that was not put.
  std::int64_t before_gap() const { return before_gap_; }

 private:
  std::int64_t before_gap_ = 0;
  std::map<std::int64_t, std::int64_t> behind_gap_;  ///< where a run begins, and its end
};

}  // namespace partita::link::direct
