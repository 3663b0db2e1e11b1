// What the kernels of a send have left to the host.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/backoff.hpp"
#include "core/epoch.hpp"
#include "link/plan.hpp"
#include "transfer/pace.hpp"
#include "transfer/partition_set.hpp"

namespace partita {

/// How long whoever finds marks of kernels looks for more of them, which come from blocks that end close after each
/// other. `Clock`: one of the standard's.
template <class Clock>
class CloseMarksBy {
 public:
  /// For several gaps: what comes meanwhile would cost a transfer and an announcement of its own.
  CloseMarksBy() : CloseMarksBy(longest) {}
  /// For one gap, where what comes later is found together anyway, behind the work for what was there. Other requests'
  /// steps wait meanwhile.
  static CloseMarksBy within_one_gap() { return CloseMarksBy(Pace::close_gap); }

  /// Waits for as long as there may lie between two of them; false where marks have been coming for long enough, since
  /// the first wait began.
  bool wait() {
    const auto now = Clock::now();
    if (!end_) end_ = now + time_;
    if (now >= *end_) return false;
    while (Clock::now() < now + Pace::close_gap) cpu_relax();
    return true;
  }

 private:
  static constexpr std::chrono::microseconds longest{50};

  explicit CloseMarksBy(std::chrono::nanoseconds time) : time_(time) {}

  const std::chrono::nanoseconds time_;
  std::optional<typename Clock::time_point> end_;
};
using CloseMarks = CloseMarksBy<std::chrono::steady_clock>;

/// Each transport partition of an epoch is taken once, by whoever looks first.
class HandOvers {
 public:
  /// Once, before the first epoch.
  void set_up(std::int32_t transport_partitions);

  /// Calls `take` with the transport partitions that `side` shows as handed over in `epoch` and nobody has taken,
  /// neighbours together; returns how many are handed over so far. Looks at none where kernels copy all, and again at
  /// none of the first ones that were all handed over. Several threads at once.
  template <class Side, class Take>
  std::int32_t take(const Side& side, Epoch epoch, Take take) {
    if (!side.hands_over(epoch)) return 0;
    std::int32_t all_before = known(epoch);
    std::int32_t count = all_before;
    link::Range run;
    for (std::int32_t t = all_before; t < size(); ++t) {
      if (!side.handed_over(t, epoch)) continue;
      if (count == t) all_before = t + 1;
      ++count;
      if (is_taken_now(t, epoch)) join(run, t, take);
    }
    take(run);
    know(epoch, all_before);
    return count;
  }

  /// As take, but waits first for what comes soon, as `marks` says, where something new is there and not all of it:
  /// that leaves together.
  template <class Side, class Take, class Marks>
  std::int32_t take_together(const Side& side, Epoch epoch, Take take, Marks marks) {
    if (!side.hands_over(epoch)) return 0;
    News news = look(side, epoch);
    while (news.any && news.count < size() && marks.wait()) {
      const std::int32_t before = std::exchange(news, look(side, epoch)).count;
      if (news.count == before) break;
    }
    return news.any ? this->take(side, epoch, take) : news.count;
  }

  /// At the wrap of epochs: what is noted of epochs 2^32 ago would be taken for new. No epoch is open.
  void forget();

 private:
  struct News {
    std::int32_t count = 0;  ///< handed over so far
    bool any = false;        ///< not taken yet, some of them
  };

  std::int32_t size() const { return static_cast<std::int32_t>(taken_.size()); }
  template <class Side>
  News look(const Side& side, Epoch epoch) const {
    News news{known(epoch)};
    for (std::int32_t t = news.count; t < size(); ++t) {
      if (!side.handed_over(t, epoch)) continue;
      ++news.count;
      news.any |= taken_[static_cast<std::size_t>(t)].load(std::memory_order_relaxed) != epoch;
    }
    return news;
  }
  /// So many transport partitions, from the first one on, were all seen handed over in `epoch`.
  std::int32_t known(Epoch epoch) const {
    const std::uint64_t known = known_.load(std::memory_order_relaxed);
    return known >> 32 == epoch ? static_cast<std::int32_t>(known & 0xffffffff) : 0;
  }
  /// A store of an older count may come last; that costs another look.
  void know(Epoch epoch, std::int32_t count) {
    known_.store(std::uint64_t{epoch} << 32 | static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  }
  bool is_taken_now(std::int32_t t, Epoch epoch) {
    return taken_[static_cast<std::size_t>(t)].exchange(epoch, std::memory_order_relaxed) != epoch;
  }

  std::vector<std::atomic<Epoch>> taken_;  ///< per transport partition: the newest epoch in which it was taken
  std::atomic<std::uint64_t> known_{0};    ///< low half: what known() returns; high half: in which epoch
};

}  // namespace partita
