#include "transfer/partition_set.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "support/random.hpp"

namespace partita {
namespace {

using link::Range;

std::int64_t add_all(PartitionSet& set, Range range) {
  std::int64_t end = range.begin;
  const std::int64_t told = set.add_each(range, [&](const PartitionSet::Added& added) {
    EXPECT_EQ(added.added.begin, end);
    EXPECT_TRUE(PartitionSet::has_all(added.word, PartitionSet::mask(added.added)));
    end = added.added.end;
  });
  EXPECT_EQ(told, end);
  return told;
}

TEST(PartitionSet, agree_with_a_set_of_numbers) {
  test::Random random(20260101, 1);
  for (const std::int32_t partitions : {1, 2, 63, 64, 65, 127, 128, 129, 1000}) {
    PartitionSet set(partitions);
    for (int epoch = 0; epoch < 20; ++epoch) {
      set.clear();
      std::set<std::int64_t> expected;
      for (int i = 0; i < 40; ++i) {
        const std::int64_t begin = random.between(0, partitions - 1);
        const std::int64_t end = random.between(begin + 1, random.one_in(2) ? begin + 1 : partitions);
        std::int64_t first_marked = begin;
        while (first_marked < end && !expected.contains(first_marked)) expected.insert(first_marked++);
        if (end == begin + 1 && random.one_in(2)) {
          ASSERT_EQ(set.add(begin) != 0, first_marked == end);
        } else {
          ASSERT_EQ(add_all(set, {begin, end}), first_marked);
        }
        for (std::int64_t p = 0; p < partitions; ++p) ASSERT_EQ(set.contains(p), expected.contains(p)) << p;
        const auto lowest = expected.lower_bound(begin);
        ASSERT_EQ(set.first_of({begin, end}), lowest == expected.end() || *lowest >= end ? end : *lowest);
      }
    }
  }
}

TEST(PartitionSet, join_bits_as_one_by_one) {
  test::Random random(20261201, 1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Range> by_bits, by_one;
    Range bits_run, one_run;
    for (std::int64_t first = 0; first < 256; first += 64) {
      const std::uint64_t some = random.bits() & random.bits();
      const std::uint64_t bits = random.one_in(3) ? ~std::uint64_t{0} : random.one_in(2) ? some : ~some;
      join_bits(bits_run, first, bits, [&](Range run) { by_bits.push_back(run); });
      for (int bit = 0; bit < 64; ++bit) {
        if ((bits >> bit & 1) != 0) join(one_run, first + bit, [&](Range run) { by_one.push_back(run); });
      }
    }
    ASSERT_EQ(by_bits, by_one);
    ASSERT_EQ(bits_run, one_run);
  }
}

TEST(PartitionSet, tell_when_a_part_is_complete) {
  PartitionSet set(130);
  const Range part{60, 64};
  EXPECT_FALSE(PartitionSet::has_all(set.add({60, 63}).word, PartitionSet::mask(part)));
  EXPECT_FALSE(set.contains_all(part));
  EXPECT_TRUE(PartitionSet::has_all(set.add(63), PartitionSet::mask(part)));
  EXPECT_TRUE(set.contains_all(part));
  EXPECT_EQ(add_all(set, {64, 130}), 130);
  EXPECT_TRUE(set.contains_all({64, 128})) << "a whole word";
  EXPECT_TRUE(set.contains_all({128, 130}));
  EXPECT_FALSE(set.contains_all({59, 60}));
}

TEST(PartitionSet, count_the_words_of_a_run) {
  EXPECT_EQ(PartitionSet::parts({0, 1}), 1);
  EXPECT_EQ(PartitionSet::parts({0, 64}), 1);
  EXPECT_EQ(PartitionSet::parts({63, 65}), 2);
  EXPECT_EQ(PartitionSet::parts({0, 65}), 2);
  EXPECT_EQ(PartitionSet::parts({64, 1024}), 15);
}

TEST(PartitionSet, of_several_threads_complete_each_word_once_and_bring_all_bytes) {
  constexpr std::int32_t partitions = 256;
  constexpr int threads = 4;
  PartitionSet set(partitions);
  std::vector<int> bytes(partitions);
  std::atomic<int> completed{0}, wrong{0}, refused{0};
  for (int epoch = 1; epoch <= 200; ++epoch) {
    set.clear();
    completed = 0;
    refused = 0;
    std::vector<std::thread> markers;
    for (int thread = 0; thread < threads; ++thread) {
      markers.emplace_back([&, thread] {
        test::Random random(static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(thread));
        for (const std::int32_t p : random.permutation(partitions)) {
          if (p % threads != thread) continue;
          bytes[static_cast<std::size_t>(p)] = epoch;
          const Range word = PartitionSet::word_around(p);
          const std::uint64_t bits = p % 2 == 0 ? set.add(p) : set.add(Range{p, p + 1}).word;
          if (!PartitionSet::has_all(bits, PartitionSet::mask(word))) continue;
          ++completed;
          for (std::int64_t i = word.begin; i < word.end; ++i) wrong += bytes[static_cast<std::size_t>(i)] != epoch;
        }
        refused += set.add(thread) == 0 && set.add({thread, thread + 1}).added.size() == 0;
      });
    }
    for (std::thread& marker : markers) marker.join();
    ASSERT_EQ(completed, partitions / 64);
    ASSERT_EQ(wrong, 0);
    ASSERT_EQ(refused, threads) << "each tries one of its own again";
  }
}

}  // namespace
}  // namespace partita
