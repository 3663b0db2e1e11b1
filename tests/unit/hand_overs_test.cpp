// What kernels leave to the host, taken together where it comes close after each other.
#include "partitioned/gpu/hand_overs.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace partita::test {
namespace {

constexpr Epoch shown_epoch = 7;
constexpr std::int32_t shown_partitions = 8;

/// What kernels have handed over, as a DeviceSide shows it.
struct ShownSide {
  std::vector<bool> there = std::vector<bool>(shown_partitions);
  mutable int looks = 0;  ///< at a partition

  bool hands_over(Epoch) const { return true; }
  bool handed_over(std::int32_t t, Epoch of) const {
    ++looks;
    return of == shown_epoch && there[static_cast<std::size_t>(t)];
  }
};

/// Kernels that mark one partition of `to_come` in each wait, for `waits` of them.
struct MarkingKernels {
  ShownSide& side;
  std::vector<std::size_t> to_come;
  int waits = 1000;
  int* waited = nullptr;

  bool wait() {
    if (waits-- == 0) return false;
    ++*waited;
    if (to_come.empty()) return true;
    side.there[to_come.front()] = true;
    to_come.erase(to_come.begin());
    return true;
  }
};

class HandOversTest : public testing::Test {
 protected:
  HandOversTest() { hand_overs.set_up(shown_partitions); }

  using Runs = std::vector<std::vector<std::int64_t>>;
  /// What leaves, as {begin, end}; how many are handed over is in `count`.
  Runs take(std::vector<std::size_t> to_come, int waits = 1000) {
    Runs runs;
    waited = 0;
    count = hand_overs.take_together(
        side, shown_epoch,
        [&](link::Range run) {
          if (run.size() > 0) runs.push_back({run.begin, run.end});
        },
        MarkingKernels{side, std::move(to_come), waits, &waited});
    return runs;
  }

  HandOvers hand_overs;
  ShownSide side;
  std::int32_t count = 0;
  int waited = 0;
};

TEST_F(HandOversTest, nothing_new_is_not_waited_for) {
  EXPECT_EQ(take({1, 2}), Runs{});
  EXPECT_EQ(waited, 0);
  side.there[3] = true;
  EXPECT_EQ(take({}), (Runs{{3, 4}}));
  EXPECT_EQ(take({4}), Runs{});
  EXPECT_EQ(count, 1);
  EXPECT_EQ(waited, 0);
}

/// Most looks find nothing new.
TEST_F(HandOversTest, nothing_new_is_looked_for_once) {
  side.there[0] = side.there[5] = true;
  EXPECT_EQ(take({}), (Runs{{0, 1}, {5, 6}}));
  side.looks = 0;
  EXPECT_EQ(take({}), Runs{});
  EXPECT_EQ(count, 2);
  EXPECT_EQ(side.looks, shown_partitions - 1) << "the first one is known";
}

TEST_F(HandOversTest, what_comes_out_of_order_leaves_as_one) {
  side.there[5] = true;
  EXPECT_EQ(take({0, 7, 2, 3, 1, 6, 4}), (Runs{{0, shown_partitions}}));
  EXPECT_EQ(count, shown_partitions);
  EXPECT_EQ(waited, 7) << "there is nothing to wait for behind the last one";
}

TEST_F(HandOversTest, a_lone_one_leaves_after_one_wait) {
  side.there[2] = true;
  EXPECT_EQ(take({}), (Runs{{2, 3}}));
  EXPECT_EQ(waited, 1);
}

TEST_F(HandOversTest, a_wait_ends_though_more_keep_coming) {
  side.there[0] = true;
  EXPECT_EQ(take({1, 2, 3, 4, 5}, 3), (Runs{{0, 4}}));
  EXPECT_EQ(take({7}, 3), Runs{}) << "nothing new is there";
  side.there[5] = true;
  EXPECT_EQ(take({4, 6, 7}), (Runs{{4, shown_partitions}}));
}

TEST_F(HandOversTest, all_at_once_are_not_waited_for) {
  side.there.assign(shown_partitions, true);
  EXPECT_EQ(take({}), (Runs{{0, shown_partitions}}));
  EXPECT_EQ(waited, 0);
}

/// Each look at it takes half a microsecond.
struct SteppingClock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<SteppingClock, duration>;
  static time_point now() {
    passed += std::chrono::nanoseconds(500);
    return time_point(passed);
  }
  static inline duration passed{0};
};

TEST(CloseMarksTest, are_waited_for_within_a_limit) {
  CloseMarksBy<SteppingClock> marks;
  const auto begin = SteppingClock::passed;
  ASSERT_TRUE(marks.wait());
  EXPECT_GE(SteppingClock::passed - begin, Pace::close_gap);
  int waits = 1;
  while (marks.wait()) ++waits;
  EXPECT_GE(waits, 15) << "each takes two microseconds and some looks, of 50 in all";
  EXPECT_LE(waits, 25);
}

/// However many keep coming.
TEST(CloseMarksTest, are_waited_for_once_within_one_gap) {
  auto marks = CloseMarksBy<SteppingClock>::within_one_gap();
  const auto begin = SteppingClock::passed;
  ASSERT_TRUE(marks.wait());
  EXPECT_GE(SteppingClock::passed - begin, Pace::close_gap);
  EXPECT_FALSE(marks.wait());
  EXPECT_LE(SteppingClock::passed - begin, 2 * Pace::close_gap);
}

/// Whoever waits has looked at all partitions before, which may take longer than a gap.
TEST(CloseMarksTest, are_waited_for_after_a_look_that_takes_long) {
  auto marks = CloseMarksBy<SteppingClock>::within_one_gap();
  SteppingClock::passed += 2 * Pace::close_gap;
  const auto begin = SteppingClock::passed;
  EXPECT_TRUE(marks.wait());
  EXPECT_GE(SteppingClock::passed - begin, Pace::close_gap);
  EXPECT_FALSE(marks.wait());
}

}  // namespace
}  // namespace partita::test
