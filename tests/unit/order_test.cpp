// The order in which contenders take their turns.
#include "apps/support/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace partita::apps {
namespace {

TEST(Order, everyone_has_one_turn_in_a_round) {
  std::vector<std::size_t> order = draw_order(7, 1, 3);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Order, the_same_seed_and_round_give_the_same_order) {
  EXPECT_EQ(draw_order(12, 7, 3), draw_order(12, 7, 3));
  EXPECT_NE(draw_order(12, 7, 3), draw_order(12, 7, 4));
  EXPECT_NE(draw_order(12, 7, 3), draw_order(12, 8, 3));
}

/// Six orders of three: each comes about as often as another, so that nobody mostly follows the same one.
TEST(Order, every_order_comes_about_as_often_as_another) {
  std::map<std::vector<std::size_t>, int> seen;
  for (std::uint64_t epoch = 0; epoch < 1200; ++epoch) ++seen[draw_order(3, 1, epoch)];
  EXPECT_EQ(seen.size(), 6U);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 200, 70);
}

TEST(Order, names_are_put_into_the_order_that_is_drawn_for_them) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const std::vector<std::size_t> order = draw_order(names.size(), 7, 3);
  const std::vector<std::string> found = in_drawn_order(names, 7, 3);
  ASSERT_EQ(found.size(), names.size());
  for (std::size_t turn = 0; turn < names.size(); ++turn) EXPECT_EQ(found[turn], names[order[turn]]) << turn;
}

}  // namespace
}  // namespace partita::apps
