// What the kernels of a send have left to the host.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
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
/// other. Whatever else its thread does waits meanwhile, the steps of other requests where it is the engine's. `Clock`:
/// one of the standard's.
template <class Clock>
class CloseMarksBy {
 public:
  /// For several pauses: what comes meanwhile would cost a transfer and an announcement of its own.
  CloseMarksBy() : CloseMarksBy(longest_pause, longest_wait) {}
  /// For one short gap, where what comes later is found together anyway, behind the work for what was there.
  static CloseMarksBy within_one_gap() { return {Pace::close_gap, Pace::close_gap}; }

  /// Waits for as long as there may lie between two of them, or until `no_more()`; false where marks have been coming
  /// for long enough, since the first wait began.
  template <class NoMore>
  bool wait(NoMore no_more) {
    const auto now = Clock::now();
    if (end_ == not_begun) end_ = now + time_;
    if (now >= end_) return false;
    const auto end = std::min(now + pause_, end_);
    while (Clock::now() < end && !no_more()) cpu_relax();
    return true;
  }

  /// The blocks that a GPU runs at once may begin together, and then end so: the next ones mark some microseconds
  /// later.
  static constexpr std::chrono::microseconds longest_pause{10};

 private:
  static constexpr std::chrono::microseconds longest_wait{50};
  static constexpr auto not_begun = Clock::time_point::max();

  CloseMarksBy(std::chrono::nanoseconds pause, std::chrono::nanoseconds time) : pause_(pause), time_(time) {}

  const std::chrono::nanoseconds pause_;
  const std::chrono::nanoseconds time_;
  typename Clock::time_point end_ = not_begun;
};
using CloseMarks = CloseMarksBy<std::chrono::steady_clock>;

/// Threads that look again and again in a call, as one that waits does. `Clock`: one of the standard's.
template <class Clock>
class RecentCallsBy {
 public:
  void note() { newest_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
  /// Whether one has looked just now, and so will again soon.
  bool any() const {
    const typename Clock::duration newest(newest_.load(std::memory_order_relaxed));
    return Clock::now().time_since_epoch() - newest < recent;
  }

 private:
  static constexpr std::chrono::microseconds recent{50};
  static constexpr auto never = std::numeric_limits<typename Clock::duration::rep>::min() / 2;
  std::atomic<typename Clock::duration::rep> newest_{never};
};
using RecentCalls = RecentCallsBy<std::chrono::steady_clock>;

/// Each transport partition of an epoch is taken once. One thread takes at a time: two would find the same runs, and
/// each would have pieces of them. A look costs a load for each partition, of a line that the GPU has written, but for
/// those of 32 that were all seen, and where the kernels have said that all are there. All else costs a few steps for
/// 32 of them.
class HandOvers {
 public:
  /// What runs that soon join their neighbours do while the kernels mark more.
  enum class Joining { leave, stay };
  /// Who looks: a call, or a step of the engine, which leaves all to calls that are made again and again. Their thread
  /// is at it anyway, and takes a fraction of the time that one takes which has just woken.
  enum class From { call, step };

  /// Before kernels hand over.
  void set_up(std::int32_t transport_partitions);

  /// Calls `take` with runs of the transport partitions that `side` shows as handed over in `epoch`, which is open, and
  /// that were not taken, neighbours together; returns how many are handed over so far. Looks at none where kernels
  /// copy all. Where something new is there and kernels are still to mark, waits first for what comes soon, as `marks`
  /// says: that leaves together. Any thread; where another one is at it, does nothing and returns nothing.
  template <class Side, class Take, class Marks>
  std::optional<std::int32_t> take_together(const Side& side, Epoch epoch, Take take, Marks marks) {
    return take_alone(side, epoch, take, marks, std::numeric_limits<std::int32_t>::max(), Joining::leave, From::call);
  }
  /// Takes as take_together does, where each run costs a transfer. A run of `enough` neighbours is worth one, though
  /// more come: such leave at once. If the next call follows soon, a run stays for that, once, where blocks beside it
  /// are just ending, so that it soon joins its neighbours: one that is short beside the longest, and a longer one
  /// behind a gap.
  template <class Side, class Take, class Marks>
  std::optional<std::int32_t> take_transfers(const Side& side, Epoch epoch, Take take, Marks marks, std::int32_t enough,
                                             Joining joining, From from) {
    return take_alone(side, epoch, take, marks, enough, joining, from);
  }

  /// At the wrap of epochs: what is noted of the epoch 2^32 ago would be taken for new. No epoch is open.
  void forget() { epoch_ = no_epoch; }

 private:
  static constexpr std::int32_t word_bits = 32;
  /// A run shorter than this part of the longest costs as much to start and to announce, and splits what comes around
  /// it.
  static constexpr std::int32_t short_beside_longest = 4;
  /// Who takes a run tells the receiver by one word how far those in front go. Behind a gap it tells of each one: as
  /// many cost little.
  static constexpr std::int32_t few = 4;
  /// So many words that show nothing.
  static constexpr std::int32_t far = 16;

  /// The thread that takes.
  class Taker {
   public:
    explicit Taker(std::atomic_flag& taking) : taking_(taking), is_alone_(enter(taking)) {}
    ~Taker() {
      if (is_alone_) taking_.clear(std::memory_order_release);  // pairs with the next one's entry
    }
    Taker(const Taker&) = delete;
    Taker& operator=(const Taker&) = delete;
    bool is_alone() const { return is_alone_; }

   private:
    /// Who is refused does not take the line away from who takes.
    static bool enter(std::atomic_flag& taking) {
      return !taking.test(std::memory_order_relaxed) && !taking.test_and_set(std::memory_order_acquire);
    }

    std::atomic_flag& taking_;
    const bool is_alone_;
  };

  template <class Side, class Take, class Marks>
  std::optional<std::int32_t> take_alone(const Side& side, Epoch epoch, Take& take, Marks& marks, std::int32_t enough,
                                         Joining joining, From from) {
    if (!side.hands_over(epoch)) return 0;
    const auto stands_back = [&] { return from == From::step && calls_.any(); };
    if (from == From::call) calls_.note();
    if (stands_back()) return {};
    const Taker taker(taking_);
    if (!taker.is_alone()) return {};
    if (epoch != epoch_) begin(epoch);
    // Asked before the look: what kernels have marked by then it sees.
    const auto no_more = [&] { return side.completed(epoch); };
    bool more_come = !no_more();
    looks_far_ = !looks_far_;
    News news = look(side, epoch);
    const auto wait = [&] { return marks.wait([&] { return no_more() || stands_back(); }); };
    while (more_come && news.longest > 0 && news.longest < enough && news.count < size_ && wait()) {
      if (stands_back()) return {};
      const bool over = no_more();
      const std::int32_t before = std::exchange(news, look(side, epoch)).count;
      more_come = !over && news.count > before;
    }
    if (news.longest == 0) return news.count;
    const bool some_stay = joining == Joining::stay && more_come && news.count < size_;
    const std::int32_t least = std::min(enough, news.longest / short_beside_longest);
    const std::int32_t count = for_each_new(side, epoch, [&](link::Range run) {
      if (run.size() == 0) return;
      const bool had_better_grow = run.size() < least || (run.size() > few && run.begin != first_left());
      if (some_stay && had_better_grow && can_grow(run) && !any_in(stayed_, run)) return add(stayed_, run);
      add(taken_, run);
      take(run);
    });
    if (from == From::call) calls_.note();  // that took its time
    return count;
  }

  struct News {
    std::int32_t count = 0;    ///< handed over so far
    std::int32_t longest = 0;  ///< the longest run of those that were not taken
  };
  template <class Side>
  News look(const Side& side, Epoch epoch) {
    News news;
    news.count = for_each_new(side, epoch, [&](link::Range run) {
      news.longest = std::max(news.longest, static_cast<std::int32_t>(run.size()));
    });
    return news;
  }

  /// Calls `use`, which may take it, with each run of transport partitions that are handed over and not taken; returns
  /// how many are handed over, taken or not. Blocks mostly run from the first on: where something new is found while
  /// more come, what lies far behind the last that is shown is left to the next call.
  template <class Side, class Use>
  std::int32_t for_each_new(const Side& side, Epoch epoch, Use use) {
    const bool all = side.all_handed_over(epoch);
    const bool may_end_early = !looks_far_ && !side.completed(epoch);
    std::int32_t count = 0;
    std::int32_t empty = 0;
    bool is_found = false;
    link::Range run;
    for (std::int32_t word = 0; word < words() && !(may_end_early && is_found && empty == far); ++word) {
      std::uint32_t& seen = seen_[static_cast<std::size_t>(word)];
      if (all) {
        seen = all_of(word);
      } else if (seen != all_of(word)) {
        seen = side.handed_over(word * word_bits, size_in(word), epoch);
      }
      const std::uint32_t found = seen & ~taken_[static_cast<std::size_t>(word)];
      count += std::popcount(seen);
      empty = seen == 0 ? empty + 1 : 0;
      is_found = is_found || found != 0;
      join_bits(run, std::int64_t{word} * word_bits, found, use);
    }
    if (run.size() > 0) use(run);
    return count;
  }

  void begin(Epoch epoch);
  /// The first that was not taken, or how many there are.
  std::int32_t first_left();
  /// Whether a neighbour of `run`, of all that were handed over beside each other, is still to come.
  bool can_grow(link::Range run) const;
  template <class Use>
  static void for_words_of(link::Range run, Use use);
  static bool any_in(const std::vector<std::uint32_t>& set, link::Range run);
  static void add(std::vector<std::uint32_t>& set, link::Range run);

  std::int32_t words() const { return static_cast<std::int32_t>(taken_.size()); }
  std::int32_t size_in(std::int32_t word) const { return std::min(size_ - word * word_bits, word_bits); }
  std::uint32_t all_of(std::int32_t word) const { return ~std::uint32_t{0} >> (word_bits - size_in(word)); }

  std::int32_t size_ = 0;
  RecentCalls calls_;                  ///< that have looked
  std::atomic_flag taking_;            ///< a thread takes, which alone uses what stands below
  Epoch epoch_ = no_epoch;             ///< the epoch that what stands below tells of
  std::vector<std::uint32_t> taken_;   ///< bits of transport partitions, each in the word of 32 of them
  std::vector<std::uint32_t> stayed_;  ///< bits of those that a call has seen and left to the next
  bool looks_far_ = true;              ///< this call does, and the next one need not
  std::int32_t taken_words_ = 0;       ///< so many words, from the first one on, were all taken
  std::vector<std::uint32_t> seen_;    ///< bits of those that were handed over when they were looked at
};

}  // namespace partita
