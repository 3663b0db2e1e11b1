// A set of partitions, a bit each, so that one atomic step adds a partition, finds that it was there before, and tells
// whoever completes a run of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "link/plan.hpp"

namespace partita {

/// Adds `more` to `run`, or calls `use` with the run and begins another: neighbours go together.
template <class Use>
void join(link::Range& run, link::Range more, Use use) {
  if (run.end != more.begin) {
    if (run.size() > 0) use(run);
    run.begin = more.begin;
  }
  run.end = more.end;
}
template <class Use>
void join(link::Range& run, std::int64_t t, Use use) {
  join(run, link::Range{t, t + 1}, use);
}
/// Adds those that `bits` names, counted from `first` on.
template <class Use>
void join_bits(link::Range& run, std::int64_t first, std::uint64_t bits, Use use) {
  while (bits != 0) {
    const int begin = std::countr_zero(bits);
    const int length = std::countr_one(bits >> begin);
    join(run, link::Range{first + begin, first + begin + length}, use);
    if (begin + length == 64) return;
    bits &= ~std::uint64_t{0} << (begin + length);
  }
}

class PartitionSet {
 public:
  using Range = link::Range;

  static constexpr int bits = 64;  ///< partitions in one word

  /// What a call has added, and how its word stands then.
  struct Added {
    Range added;
    std::uint64_t word;
  };

  PartitionSet() = default;
  explicit PartitionSet(std::int32_t partitions) : own_(words_of(partitions)), words_(own_.data(), own_.size()) {}
  /// In memory of somebody else's, which begins zeroed.
  PartitionSet(std::atomic<std::uint64_t>* words, std::int32_t partitions) : words_(words, words_of(partitions)) {}

  /// Partitions whose bits lie in one word; other runs have parts in several.
  static Range word_around(std::int64_t partition) {
    const std::int64_t begin = partition / bits * bits;
    return {begin, begin + bits};
  }
  /// Calls `use` with each part of `run` that lies in one word.
  template <class Use>
  static void for_each_part(Range run, Use use) {
    while (run.begin < run.end) {
      const Range part{run.begin, std::min(run.end, word_around(run.begin).end)};
      use(part);
      run.begin = part.end;
    }
  }
  /// How many they are; `run` is not empty.
  static std::int32_t parts(Range run) {
    return static_cast<std::int32_t>((run.end - 1) / bits - run.begin / bits + 1);
  }

  /// Nobody adds meanwhile.
  void clear() {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }

  bool contains(std::int64_t partition) const {
    return (word_of(partition).load(std::memory_order_relaxed) & bit_of(partition)) != 0;
  }
  /// The first partition of `range` that is in the set, or range.end.
  std::int64_t first_of(Range range) const {
    while (range.begin < range.end) {
      const Range part{range.begin, std::min(range.end, word_around(range.begin).end)};
      const std::uint64_t there = word_of(part.begin).load(std::memory_order_relaxed) & mask(part);
      if (there != 0) return word_around(part.begin).begin + std::countr_zero(there);
      range.begin = part.end;
    }
    return range.end;
  }
  /// Joins to `run` what `bits` has of the word of `partition`.
  template <class Use>
  static void join_all(Range& run, std::int64_t partition, std::uint64_t bits, Use use) {
    join_bits(run, word_around(partition).begin, bits, use);
  }
  /// Whether all partitions of `run` are in the set. Acquires what those who have added them released.
  bool contains_all(Range run) const {
    bool all = true;
    for_each_part(run, [&](Range part) { all = all && has_all(word(part.begin), mask(part)); });
    return all;
  }
  static bool has_all(std::uint64_t word, std::uint64_t mask) { return (word & mask) == mask; }
  /// The bits of `part`, which is not empty and lies in one word.
  static std::uint64_t mask(Range part) { return ~std::uint64_t{0} >> (bits - part.size()) << (part.begin % bits); }

  /// Adds one partition; the word then, or 0 if it was there already. As `add` of a range.
  std::uint64_t add(std::int64_t partition) {
    std::atomic<std::uint64_t>& word = word_of(partition);
    const std::uint64_t wish = bit_of(partition);
    std::uint64_t before = word.load(std::memory_order_relaxed);
    do {
      if ((before & wish) != 0) return 0;
    } while (!word.compare_exchange_weak(before, before | wish, std::memory_order_seq_cst, std::memory_order_relaxed));
    return before | wish;
  }

  /// Adds those partitions at the begin of `range` that lie in one word and before the first one that is there
  /// already. Any thread. Releases the caller's bytes and acquires those of all that have added to this word: whoever
  /// completes it has them all. In one order with Holds: whoever has added sees that nobody looks, or the look sees it.
  Added add(Range range) {
    std::atomic<std::uint64_t>& word = word_of(range.begin);
    const Range wanted{range.begin, std::min(range.end, word_around(range.begin).end)};
    const std::uint64_t wish = mask(wanted);
    std::uint64_t before = word.load(std::memory_order_relaxed);
    std::uint64_t added = 0;
    do {
      const std::uint64_t twice = before & wish;
      added = twice == 0 ? wish : wish & ((twice & (0 - twice)) - 1);
    } while (!word.compare_exchange_weak(before, before | added, std::memory_order_seq_cst, std::memory_order_relaxed));
    return {{wanted.begin, wanted.begin + std::popcount(added)}, before | added};
  }

  /// Adds up to the first partition of `range` that is there already, which it returns, or to its end. Calls `use`
  /// with each Added on the way.
  template <class Use>
  std::int64_t add_each(Range range, Use use) {
    while (range.size() > 0) {
      const Added added = add(range);
      if (added.added.size() == 0) break;
      use(added);
      range.begin = added.added.end;
    }
    return range.begin;
  }

  /// Takes out all that is in the word of `partition`, and returns it.
  std::uint64_t take(std::int64_t partition) { return word_of(partition).exchange(0, std::memory_order_acq_rel); }
  /// Adds what `wish` names in the word of `partition`; what of it was not there before.
  std::uint64_t claim(std::int64_t partition, std::uint64_t wish) {
    return wish & ~word_of(partition).fetch_or(wish, std::memory_order_acq_rel);
  }
  /// Adds all of a set that lies in one word and is empty. False, without effect, where it is not empty.
  bool claim_whole(Range whole) {
    std::uint64_t nothing = 0;
    return words_.front().compare_exchange_strong(nothing, mask(whole), std::memory_order_acq_rel,
                                                  std::memory_order_relaxed);
  }
  /// Adds all of such a set, where nobody else adds anything. Releases the caller's bytes.
  void add_whole(Range whole) { words_.front().store(mask(whole), std::memory_order_release); }
  /// In one order with `add`; acquires what those who have added released.
  std::uint64_t word(std::int64_t partition) const { return word_of(partition).load(std::memory_order_seq_cst); }

 private:
  static std::size_t words_of(std::int32_t partitions) {
    return (static_cast<std::size_t>(partitions) + bits - 1) / bits;
  }
  static std::uint64_t bit_of(std::int64_t partition) {
    return std::uint64_t{1} << (static_cast<std::uint64_t>(partition) % bits);
  }
  std::atomic<std::uint64_t>& word_of(std::int64_t partition) {
    return words_[static_cast<std::size_t>(partition) / bits];
  }
  const std::atomic<std::uint64_t>& word_of(std::int64_t partition) const {
    return words_[static_cast<std::size_t>(partition) / bits];
  }

  std::vector<std::atomic<std::uint64_t>> own_;
  std::span<std::atomic<std::uint64_t>> words_;
};

}  // namespace partita
