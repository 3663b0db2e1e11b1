// How far neighbouring partitions have come in a schedule.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "collective/schedule.hpp"
#include "link/plan.hpp"

namespace partita::collective {

/// Some of the partitions that walk side by side, a bit each, the first one's the lowest.
using Bits = std::uint64_t;
inline constexpr int most_side_by_side = 64;

/// The first `count` of them, 1 or more.
inline Bits first_bits(std::int64_t count) {
  return ~Bits{0} >> (most_side_by_side - count);
}

/// Those of `run`, which is not empty.
inline Bits bits_of(link::Range run) {
  return first_bits(run.size()) << run.begin;
}

/// Calls `use` with each run of neighbours of `bits`, as numbers of bits.
template <class Use>
void for_each_run(Bits bits, Use use) {
  while (bits != 0) {
    const int begin = std::countr_zero(bits);
    const link::Range run{begin, begin + std::countr_one(bits >> begin)};
    use(run);
    bits &= ~bits_of(run);
  }
}

/// Partitions side by side in one epoch, each of which walks by itself: which action may begin in which of them.
class Walk {
 public:
  explicit Walk(const Schedule& schedule);

  /// A new epoch of `partitions`.
  void restart(Bits partitions);
  /// Those in which `action` has not begun, and all that comes before it has ended.
  Bits possible(int action) const { return possible(action, ended_); }
  /// Those in which it has not begun, and all that comes before it has begun: where one stream does both.
  Bits possible_behind(int action) const { return possible(action, begun_); }
  /// In all of them.
  bool has_begun(int action) const { return begun_[static_cast<std::size_t>(action)] == all_; }
  void begin(int action, Bits partitions) { begun_[static_cast<std::size_t>(action)] |= partitions; }
  /// It has begun in them.
  void end(int action, Bits partitions) { ended_[static_cast<std::size_t>(action)] |= partitions; }
  /// Those in which all has ended.
  Bits over() const;

 private:
  Bits possible(int action, const std::vector<Bits>& before) const {
    const auto at = static_cast<std::size_t>(action);
    Bits possible = all_ & ~begun_[at];
    for (const int earlier : schedule_.actions[at].after) possible &= before[static_cast<std::size_t>(earlier)];
    return possible;
  }

  const Schedule& schedule_;
  Bits all_ = 0;
  std::vector<Bits> begun_;  ///< by action
  std::vector<Bits> ended_;
};

}  // namespace partita::collective
