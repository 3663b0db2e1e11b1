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
/// other. `Clock`: one of the standard's.
template <class Clock>
class CloseMarksBy {
 public:
  /// For several gaps: what comes meanwhile would cost a transfer and an announcement of its own.
  CloseMarksBy() : CloseMarksBy(longest) {}
  /// For one gap, where what comes later is found together anyway, behind the work for what was there. Other requests'
  /// steps wait meanwhile.
  static CloseMarksBy within_one_gap() { return CloseMarksBy(Pace::close_gap); }

  /// Waits for as long as there may lie between two of them, or until `all_there()`; false where marks have been coming
  /// for long enough, since the first wait began.
  template <class AllThere>
  bool wait(AllThere all_there) {
    const auto now = Clock::now();
    if (!end_) end_ = now + time_;
    if (now >= *end_) return false;
    while (Clock::now() < now + Pace::close_gap && !all_there()) cpu_relax();
    return true;
  }

 private:
  static constexpr std::chrono::microseconds longest{50};

  explicit CloseMarksBy(std::chrono::nanoseconds time) : time_(time) {}

  const std::chrono::nanoseconds time_;
  std::optional<typename Clock::time_point> end_;
};
using CloseMarks = CloseMarksBy<std::chrono::steady_clock>;

/// Each transport partition of an epoch is taken once, by whoever looks first. A look costs a load for each of them,
/// of a line that the GPU has written, but for those in front and where the kernels have said that all are there; all
/// else costs a few steps for 32 of them.
class HandOvers {
 public:
  /// Before the first epoch.
  void set_up(std::int32_t transport_partitions);

  /// Calls `take` with runs of the transport partitions that `side` shows as handed over in `epoch` and nobody has
  /// taken, neighbours together; returns how many are handed over so far. Looks at none where kernels copy all. Where
  /// something new is there and not all of it, waits first for what comes soon, as `marks` says: that leaves together.
  /// A run of `enough` neighbours is worth a transfer by itself, though more come: such leave at once, and only they;
  /// shorter ones are left to a later call. Several threads at once.
  template <class Side, class Take, class Marks>
  std::int32_t take_together(const Side& side, Epoch epoch, Take take, Marks marks,
                             std::int32_t enough = std::numeric_limits<std::int32_t>::max()) {
    if (!side.hands_over(epoch)) return 0;
    News news = look(side, epoch);
    const auto all_there = [&] { return side.all_handed_over(epoch); };
    while (news.longest > 0 && news.longest < enough && news.count < size_ && marks.wait(all_there)) {
      const std::int32_t before = std::exchange(news, look(side, epoch)).count;
      if (news.count == before) break;
    }
    if (news.longest == 0) return news.count;
    const std::int32_t least = news.count < size_ && news.longest >= enough ? enough : 1;
    return for_each_new(side, epoch, [&](link::Range run) {
      if (run.size() >= least) claim(run, epoch, take);
    });
  }

  /// At the wrap of epochs: what is noted of epochs 2^32 ago would be taken for new. No epoch is open.
  void forget();

 private:
  static constexpr std::int32_t word_bits = 32;

  struct News {
    std::int32_t count = 0;    ///< handed over so far
    std::int32_t longest = 0;  ///< the longest run of those that nobody has taken
  };
  template <class Side>
  News look(const Side& side, Epoch epoch) {
    News news;
    news.count = for_each_new(side, epoch, [&](link::Range run) {
      news.longest = std::max(news.longest, static_cast<std::int32_t>(run.size()));
    });
    return news;
  }

  /// Calls `use` with each run of transport partitions that are handed over and not taken; returns how many are handed
  /// over, taken or not.
  template <class Side, class Use>
  std::int32_t for_each_new(const Side& side, Epoch epoch, Use use) {
    const bool all = side.all_handed_over(epoch);
    std::int32_t in_front = known(epoch);
    std::int64_t count = std::int64_t{in_front} * word_bits;
    link::Range run;
    for (std::int32_t word = 0; word < words(); ++word) {
      std::uint32_t shown = all_of(word);
      if (word >= in_front) {
        if (!all) shown = side.handed_over(word * word_bits, size_in(word), epoch);
        count += std::popcount(shown);
      }
      if (word == in_front && shown == all_of(word)) ++in_front;
      join_bits(run, std::int64_t{word} * word_bits, shown & ~taken_in(word, epoch), use);
    }
    if (run.size() > 0) use(run);
    know(epoch, in_front);
    return static_cast<std::int32_t>(std::min(count, std::int64_t{size_}));
  }

  /// Calls `take` with those of `run` that nobody else has taken meanwhile.
  template <class Take>
  void claim(link::Range run, Epoch epoch, Take take) {
    link::Range mine;
    for (std::int64_t word = run.begin / word_bits; word * word_bits < run.end; ++word) {
      const std::int64_t first = std::max(run.begin - word * word_bits, std::int64_t{0});
      const std::int64_t end = std::min(run.end - word * word_bits, std::int64_t{word_bits});
      const auto wish = static_cast<std::uint32_t>((std::uint64_t{1} << end) - (std::uint64_t{1} << first));
      join_bits(mine, word * word_bits, take_now(static_cast<std::int32_t>(word), wish, epoch), take);
    }
    if (mine.size() > 0) take(mine);
  }

  std::int32_t words() const { return static_cast<std::int32_t>(taken_.size()); }
  std::int32_t size_in(std::int32_t word) const { return std::min(size_ - word * word_bits, word_bits); }
  std::uint32_t all_of(std::int32_t word) const { return ~std::uint32_t{0} >> (word_bits - size_in(word)); }
  std::uint32_t taken_in(std::int32_t word, Epoch epoch) const {
    return bits_of(taken_[static_cast<std::size_t>(word)].load(std::memory_order_relaxed), epoch);
  }
  /// Those of `wish` that nobody had taken before.
  std::uint32_t take_now(std::int32_t word, std::uint32_t wish, Epoch epoch);
  static std::uint32_t bits_of(std::uint64_t tagged, Epoch epoch) {
    return tagged >> 32 == epoch ? static_cast<std::uint32_t>(tagged) : 0;
  }

  /// So many words, from the first one on, were all seen handed over in `epoch`. Who takes of them what another thread
  /// has looked at acquires its bytes by this; the two pair.
  std::int32_t known(Epoch epoch) const {
    return static_cast<std::int32_t>(bits_of(known_.load(std::memory_order_acquire), epoch));
  }
  /// A store of an older count may come last; that costs another look.
  void know(Epoch epoch, std::int32_t words_in_front) {
    known_.store(std::uint64_t{epoch} << 32 | static_cast<std::uint32_t>(words_in_front), std::memory_order_release);
  }

  std::int32_t size_ = 0;
  std::vector<std::atomic<std::uint64_t>>
      taken_;                            ///< low half: bits of transport partitions; high half: in which epoch
  std::atomic<std::uint64_t> known_{0};  ///< low half: what known() returns; high half: in which epoch
};

}  // namespace partita
