// Computed delays and the contents of messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "bench/clock.hpp"
#include "bench/contents.hpp"
#include "bench/work.hpp"

namespace partita::bench {
namespace {

/// The delays of many epochs, one after another.
std::vector<double> many(const DelayShape& shape, int threads) {
  std::vector<double> all;
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
    const std::vector<double> drawn = draw_delays(shape, threads, 7, epoch);
    all.insert(all.end(), drawn.begin(), drawn.end());
  }
  return all;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Delays, none_gives_every_thread_the_same_time) {
  for (const double delay : many({DelayKind::none, 100, 50}, 4)) EXPECT_DOUBLE_EQ(delay, 100);
}

TEST(Delays, single_delays_exactly_one_thread_and_each_one_at_times) {
  std::vector<int> late(4, 0);
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
    const std::vector<double> delays = draw_delays({DelayKind::single, 100, 50}, 4, 7, epoch);
    EXPECT_EQ(std::count(delays.begin(), delays.end(), 100.0), 3);
    const auto slow = std::find(delays.begin(), delays.end(), 150.0);
    ASSERT_NE(slow, delays.end());
    ++late[static_cast<std::size_t>(slow - delays.begin())];
  }
  for (const int times : late) EXPECT_GT(times, 150);
}

TEST(Delays, uniform_spreads_evenly_over_the_noise) {
  const std::vector<double> delays = many({DelayKind::uniform, 100, 50}, 4);
  EXPECT_GE(*std::min_element(delays.begin(), delays.end()), 100);
  EXPECT_LT(*std::max_element(delays.begin(), delays.end()), 150);
  EXPECT_NEAR(mean(delays), 125, 1);
  EXPECT_NEAR(deviation(delays), 50 / std::sqrt(12.0), 1);
}

TEST(Delays, gaussian_has_the_noise_as_standard_deviation_and_is_never_negative) {
  const std::vector<double> delays = many({DelayKind::gaussian, 100, 10}, 4);
  EXPECT_NEAR(mean(delays), 100, 1);
  EXPECT_NEAR(deviation(delays), 10, 1);
  const std::vector<double> wild = many({DelayKind::gaussian, 100, 500}, 4);
  EXPECT_GE(*std::min_element(wild.begin(), wild.end()), 0);
}

TEST(Delays, the_same_epoch_gives_the_same_delays_and_another_one_does_not) {
  const DelayShape shape{DelayKind::uniform, 100, 50};
  EXPECT_EQ(draw_delays(shape, 4, 7, 3), draw_delays(shape, 4, 7, 3));
  EXPECT_NE(draw_delays(shape, 4, 7, 3), draw_delays(shape, 4, 7, 4));
  EXPECT_NE(draw_delays(shape, 4, 7, 3), draw_delays(shape, 4, 8, 3));
}

TEST(Work, computing_takes_about_the_time_asked_for_and_not_less) {
  const Work work = Work::calibrated();
  double fastest_us = 1e9;  // the machine may be busy: the fastest of several
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t begin = now_ns();
    work.compute(1000);
    fastest_us = std::min(fastest_us, static_cast<double>(now_ns() - begin) / 1000);
  }
  EXPECT_GT(fastest_us, 500);
  EXPECT_LT(fastest_us, 5000);
}

TEST(Clock, its_resolution_and_cost_are_measured) {
  const Timer timer = measure_timer();
  EXPECT_GT(timer.resolution_ns, 0);
  EXPECT_GT(timer.cost_ns, 0);
}

TEST(Contents, what_is_filled_in_is_what_is_expected) {
  std::vector<std::byte> data(96);
  fill(data, 8, 5);
  EXPECT_FALSE(find_mismatch(data, 8, 5).has_value());
}

TEST(Contents, every_poisoned_byte_is_wrong) {
  std::vector<std::byte> data(96);
  poison(data, 8, 5);
  for (std::size_t i = 0; i < data.size(); ++i) {
    EXPECT_NE(data[i], expected_byte(5, static_cast<std::int64_t>(i / 12), static_cast<std::int64_t>(i % 12)));
  }
}

TEST(Contents, a_mismatch_is_named_by_offset_partition_and_bytes) {
  std::vector<std::byte> data(96);
  fill(data, 8, 5);
  const std::byte right = data[29];
  data[29] = right ^ std::byte{1};
  const auto mismatch = find_mismatch(data, 8, 5);
  ASSERT_TRUE(mismatch.has_value());
  EXPECT_EQ(mismatch->offset, 29);
  EXPECT_EQ(mismatch->partition, 2);
  EXPECT_EQ(mismatch->expected, right);
  EXPECT_EQ(mismatch->got, right ^ std::byte{1});
}

TEST(Contents, another_epoch_swapped_partitions_and_shifted_bytes_are_all_found) {
  std::vector<std::byte> data(64);
  fill(data, 4, 5);
  EXPECT_TRUE(find_mismatch(data, 4, 6).has_value());
  std::vector<std::byte> swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + 16, swapped.begin() + 16);
  EXPECT_TRUE(find_mismatch(swapped, 4, 5).has_value());
  std::vector<std::byte> shifted = data;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  EXPECT_TRUE(find_mismatch(shifted, 4, 5).has_value());
}

}  // namespace
}  // namespace partita::bench
