// Whether the partitions of a persistent send become complete so close after each other that they are worth waiting
// for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace partita {

/// What a sending half has seen of its own epochs. The first ones do not wait: they are measured. Waiting begins when
/// some in a row had no gap between two partitions that is longer than a transfer takes to start; it ends at the first
/// wait that somebody else had to end, and then takes more epochs to begin again. `Clock`: as those of
/// the standard.
template <class Clock>
class PaceBy {
 public:
  /// Up to this gap the next partition is waited for: what the start of a transfer costs over the slower links.
  static constexpr std::chrono::nanoseconds close_gap{2000};

  /// A transport partition of an epoch that does not hold is complete, and leaves next. Any thread, several at once.
  void before_leaving() {
    const std::int64_t now = ticks();
    const std::int64_t last = last_left_.load(std::memory_order_relaxed);
    if (last != 0 && now - last > longest_gap_.load(std::memory_order_relaxed)) {
      longest_gap_.store(now - last, std::memory_order_relaxed);
    }
  }
  /// It has left. The time in between is the transfer's own.
  void after_leaving() { last_left_.store(ticks(), std::memory_order_relaxed); }
  /// A wait of this epoch was ended by somebody else. Any thread.
  void wait_was_too_long() { too_long_.store(true, std::memory_order_relaxed); }

  /// Where the receiver ends waits, it does not tell, and may not look for long: the clock says which were too long. It
  /// is read in the first epochs that hold, and in one of so many later: two readings cost as much as completing a few
  /// partitions.
  static constexpr std::chrono::microseconds longest_hold{50};
  static constexpr std::uint32_t clock_every = 16;
  /// Whether the clock is read in this epoch when something waits.
  bool is_timed() const { return is_timed_; }
  /// Something waits for its group; the first that does since a group was complete. Any thread.
  void begin_wait() {
    if (is_timed() && !waits()) waiting_since_.store(ticks(), std::memory_order_relaxed);
  }
  bool waits() const { return waiting_since_.load(std::memory_order_relaxed) != 0; }
  /// What waited leaves. Any thread.
  void group_is_complete() {
    if (!waits()) return;
    const std::int64_t since = waiting_since_.exchange(0, std::memory_order_relaxed);
    if (since != 0 && ticks() - since > std::chrono::nanoseconds(longest_hold).count()) wait_was_too_long();
  }
  /// The epoch says nothing: its partitions were complete before they could leave.
  void ignore_epoch() { ignored_ = true; }

  /// An epoch ends, which did or did not hold; whether the next one is to. Nobody else calls meanwhile.
  bool next_epoch_holds(bool held) {
    waiting_since_.store(0, std::memory_order_relaxed);
    const bool close = take(longest_gap_) <= close_gap.count();
    const bool measured = take(last_left_) != 0;
    const bool too_long = take(too_long_);
    const bool ignored = ignored_;
    ignored_ = false;
    if (held) {
      ++held_epochs_;
      is_timed_ = held_epochs_ < clock_every || held_epochs_ % clock_every == 0;
      if (too_long) be_early_again();
      return !too_long;
    }
    if (ignored || !measured) return false;
    close_epochs_ = close ? close_epochs_ + 1 : 0;
    is_timed_ = true;
    return close_epochs_ >= wanted_close_epochs_;
  }

 private:
  /// Where nobody else changes it meanwhile: no step that waits for all stores before it.
  template <class Value>
  static Value take(std::atomic<Value>& word) {
    const Value value = word.load(std::memory_order_relaxed);
    word.store(Value{}, std::memory_order_relaxed);
    return value;
  }

  static constexpr std::uint32_t first_close_epochs = 2;
  static constexpr std::uint32_t most_close_epochs = 4096;

  void be_early_again() {
    const bool was_worth_it = held_epochs_ >= std::uint64_t{64} * wanted_close_epochs_;
    wanted_close_epochs_ = was_worth_it ? first_close_epochs : std::min(wanted_close_epochs_ * 4, most_close_epochs);
    close_epochs_ = 0;
    held_epochs_ = 0;
  }

  static std::int64_t ticks() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

  std::atomic<std::int64_t> last_left_{0};    ///< ns; 0: nothing yet in this epoch
  std::atomic<std::int64_t> longest_gap_{0};  ///< ns
  std::atomic<bool> too_long_{false};
  std::atomic<std::int64_t> waiting_since_{0};  ///< ns; 0: nothing waits
  bool ignored_ = false;
  bool is_timed_ = true;
  std::uint32_t close_epochs_ = 0;
  std::uint32_t wanted_close_epochs_ = first_close_epochs;
  std::uint64_t held_epochs_ = 0;  ///< since it was early last
};
using Pace = PaceBy<std::chrono::steady_clock>;

}  // namespace partita
