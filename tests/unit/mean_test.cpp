// The mean of repeated runs, and the interval around it.
#include "apps/support/mean.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace partita::apps {
namespace {

TEST(Mean, of_one_value_has_no_interval) {
  const Mean mean = mean_of(std::vector{3.0});
  EXPECT_EQ(mean.mean, 3.0);
  EXPECT_FALSE(mean.half_width);
}

TEST(Mean, of_equal_values_is_known_exactly) {
  const Mean mean = mean_of(std::vector(5, 2.0));
  EXPECT_EQ(mean.mean, 2.0);
  EXPECT_EQ(mean.half_width, 0.0);
}

/// 1, 2, 3, 4, 5 have the deviation sqrt(2.5), and 2.776 by the tables for four degrees of freedom.
TEST(Mean, has_the_interval_of_students_distribution) {
  const Mean mean = mean_of(std::vector{1.0, 2.0, 3.0, 4.0, 5.0});
  EXPECT_DOUBLE_EQ(mean.mean, 3.0);
  EXPECT_NEAR(*mean.half_width, 2.776 * std::sqrt(2.5 / 5), 1e-12);
}

/// By the tables 1.984 for a hundred degrees of freedom. The half of these values is 0, and the other half 2.
TEST(Mean, has_it_for_many_values_too) {
  std::vector<double> values(101, 0.0);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = 2.0;
  double squares = 0;
  const Mean mean = mean_of(values);
  for (const double value : values) squares += (value - mean.mean) * (value - mean.mean);
  EXPECT_NEAR(*mean.half_width / std::sqrt(squares / 100 / 101), 1.984, 1e-3);
}

}  // namespace
}  // namespace partita::apps
