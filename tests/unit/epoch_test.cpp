#include "core/epoch.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace partita {
namespace {

constexpr Epoch last = UINT32_MAX;

TEST(Epoch, next_skips_no_epoch_and_keeps_odd_and_even_alternating_when_the_count_wraps_around) {
  EXPECT_EQ(next(no_epoch), 1U);
  EXPECT_EQ(next(1), 2U);
  EXPECT_EQ(next(last - 1), last);
  EXPECT_EQ(next(last), 2U);
}

TEST(Epoch, reached_holds_from_the_wanted_epoch_on) {
  EXPECT_TRUE(reached(5, 5));
  EXPECT_TRUE(reached(6, 5));
  EXPECT_FALSE(reached(4, 5));
}

TEST(Epoch, reached_compares_across_the_wrap) {
  EXPECT_TRUE(reached(1, last));
  EXPECT_TRUE(reached(1000, last - 1000));
  EXPECT_FALSE(reached(last, 1));
  EXPECT_FALSE(reached(last - 1000, 1000));
}

TEST(Epoch, reached_holds_up_to_half_the_range_apart) {
  constexpr Epoch half = 0x7fffffffU;
  for (const Epoch wanted : {Epoch{1}, Epoch{half}, Epoch{half + 1}, last}) {
    EXPECT_TRUE(reached(wanted + half, wanted)) << wanted;
    EXPECT_FALSE(reached(wanted, wanted + half)) << wanted;
  }
}

TEST(Epoch, every_epoch_is_reached_by_its_successor_and_not_by_its_predecessor) {
  for (const Epoch start : {Epoch{1}, Epoch{0x7ffffff0U}, Epoch{last - 20}}) {
    Epoch epoch = start;
    for (int i = 0; i < 40; ++i) {
      const Epoch following = next(epoch);
      EXPECT_TRUE(reached(following, epoch));
      EXPECT_FALSE(reached(epoch, following));
      EXPECT_NE(following, no_epoch);
      epoch = following;
    }
  }
}

}  // namespace
}  // namespace partita
