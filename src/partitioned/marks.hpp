// Which partitions of a send are marked in the open epoch: a bit each, so that one atomic step marks a partition, finds
// that it was marked before, and tells whoever completes a run of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "link/plan.hpp"

namespace partita {

class Marks {
 public:
  using Range = link::Range;

  /// What a call has marked, and how its word stands then.
  struct Added {
    Range marked;
    std::uint64_t word;
  };

  explicit Marks(std::int32_t partitions) : words_((static_cast<std::size_t>(partitions) + bits - 1) / bits) {}

  /// Partitions whose marks lie in one word; other runs have parts in several.
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

  /// Of a new epoch. Nobody marks meanwhile.
  void clear() {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }

  bool is_marked(std::int64_t partition) const {
    return (word_of(partition).load(std::memory_order_relaxed) >> (partition % bits) & 1) != 0;
  }
  /// The first partition of `range` that is marked, or range.end.
  std::int64_t first_marked(Range range) const {
    std::int64_t p = range.begin;
    while (p < range.end && !is_marked(p)) ++p;
    return p;
  }
  /// Whether all partitions of `part`, which lies in one word, are marked.
  bool complete(Range part) const { return complete(word_of(part.begin).load(std::memory_order_relaxed), mask(part)); }
  static bool complete(std::uint64_t word, std::uint64_t mask) { return (word & mask) == mask; }
  /// The bits of `part`, which is not empty and lies in one word.
  static std::uint64_t mask(Range part) { return ~std::uint64_t{0} >> (bits - part.size()) << (part.begin % bits); }

  /// Marks one partition; the word then, or 0 if it was marked already. As `add` of a range.
  std::uint64_t add(std::int64_t partition) {
    std::atomic<std::uint64_t>& word = word_of(partition);
    const std::uint64_t wish = std::uint64_t{1} << (partition % bits);
    std::uint64_t before = word.load(std::memory_order_relaxed);
    do {
      if ((before & wish) != 0) return 0;
    } while (!word.compare_exchange_weak(before, before | wish, std::memory_order_acq_rel, std::memory_order_relaxed));
    return before | wish;
  }

  /// Marks those partitions at the begin of `range` that lie in one word and before the first one that is marked
  /// already. Any thread. Releases the caller's bytes and acquires those of all that have marked in this word: whoever
  /// completes it has them all.
  Added add(Range range) {
    std::atomic<std::uint64_t>& word = word_of(range.begin);
    const Range wanted{range.begin, std::min(range.end, word_around(range.begin).end)};
    const std::uint64_t wish = mask(wanted);
    std::uint64_t before = word.load(std::memory_order_relaxed);
    std::uint64_t added = 0;
    do {
      const std::uint64_t twice = before & wish;
      added = twice == 0 ? wish : wish & ((twice & (0 - twice)) - 1);
    } while (!word.compare_exchange_weak(before, before | added, std::memory_order_acq_rel, std::memory_order_relaxed));
    return {{wanted.begin, wanted.begin + std::popcount(added)}, before | added};
  }

  /// Marks up to the first partition of `range` that is marked already, which it returns, or to its end. Calls `use`
  /// with each Added on the way.
  template <class Use>
  std::int64_t add_each(Range range, Use use) {
    while (range.size() > 0) {
      const Added added = add(range);
      if (added.marked.size() == 0) break;
      use(added);
      range.begin = added.marked.end;
    }
    return range.begin;
  }

 private:
  static constexpr int bits = 64;

  std::atomic<std::uint64_t>& word_of(std::int64_t partition) {
    return words_[static_cast<std::size_t>(partition / bits)];
  }
  const std::atomic<std::uint64_t>& word_of(std::int64_t partition) const {
    return words_[static_cast<std::size_t>(partition / bits)];
  }

  std::vector<std::atomic<std::uint64_t>> words_;
};

}  // namespace partita
