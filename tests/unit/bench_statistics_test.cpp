// Statistics of samples, time intervals and the shares of a team.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "bench/intervals.hpp"
#include "bench/statistics.hpp"
#include "bench/team.hpp"

namespace partita::bench {
namespace {

TEST(Statistics, the_median_of_an_even_count_lies_between_the_middle_two) {
  const Statistics s = summarize(std::vector<double>{4, 1, 3, 2});
  EXPECT_EQ(s.count, 4U);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 4);
}

TEST(Statistics, one_outlier_moves_the_p99_and_not_the_median) {
  std::vector<double> samples(100, 10.0);
  samples[37] = 1000;
  const Statistics s = summarize(samples);
  EXPECT_DOUBLE_EQ(s.median, 10);
  EXPECT_GT(s.p99, 10);
  EXPECT_DOUBLE_EQ(s.spread_percent, 0);
}

TEST(Statistics, the_bad_end_of_rates_is_the_low_one) {
  std::vector<double> samples;
  for (int i = 0; i <= 100; ++i) samples.push_back(i);
  EXPECT_DOUBLE_EQ(summarize(samples, false).p99, 99);
  EXPECT_DOUBLE_EQ(summarize(samples, true).p99, 1);
}

TEST(Statistics, the_spread_is_the_interquartile_range_over_the_median) {
  const Statistics s = summarize(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(s.spread_percent, 100.0 * (4 - 2) / 3);
}

TEST(Statistics, no_samples_give_zeros) {
  EXPECT_EQ(summarize({}).count, 0U);
  EXPECT_EQ(summarize({}).median, 0);
}

TEST(Intervals, overlaps_count_once_and_gaps_not_at_all) {
  EXPECT_EQ(covered_ns({{0, 10}, {5, 15}, {20, 25}}), 20);
  EXPECT_EQ(covered_ns({{20, 25}, {0, 30}, {3, 4}}), 30);
}

TEST(Intervals, an_interval_that_ends_before_it_begins_covers_nothing) {
  EXPECT_EQ(covered_ns({{10, 4}}), 0);
  EXPECT_EQ(covered_ns({{10, 4}, {5, 8}}), 3);
  EXPECT_EQ(covered_ns({}), 0);
}

TEST(Intervals, the_time_after_a_moment_leaves_out_what_was_over) {
  EXPECT_EQ(covered_ns(after({{0, 10}, {5, 15}, {20, 25}}, 12)), 8);
  EXPECT_EQ(covered_ns(after({{0, 10}}, 10)), 0);
}

TEST(Team, the_shares_of_all_members_are_all_items_once) {
  for (const int items : {1, 2, 7, 128}) {
    for (const int members : {1, 2, 3, 8}) {
      int next = 0;
      for (int member = 0; member < members; ++member) {
        const Share share = share_of(items, member, members);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, (items + members - 1) / members);
        next = share.end;
      }
      EXPECT_EQ(next, items);
    }
  }
}

TEST(Team, every_member_runs_once_in_each_of_many_forks) {
  Team team(3);
  std::vector<std::atomic<int>> runs(3);
  for (int fork = 0; fork < 200; ++fork) team.run([&](int member) { ++runs[static_cast<std::size_t>(member)]; });
  for (const auto& count : runs) EXPECT_EQ(count.load(), 200);
}

}  // namespace
}  // namespace partita::bench
