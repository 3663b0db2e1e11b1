// When the partitions of a request are waited for.
#include "transfer/pace.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace partita {
namespace {

constexpr std::chrono::milliseconds long_gap{1};

/// An epoch of three departures that nobody waits for; whether the next one holds.
bool early_epoch(Pace& pace, std::chrono::milliseconds gap) {
  for (int i = 0; i < 3; ++i) {
    if (gap.count() > 0) std::this_thread::sleep_for(gap);
    pace.before_leaving();
    pace.after_leaving();
  }
  return pace.next_epoch_holds(false);
}

/// Epochs without gaps until one holds: the machine may take the core away in the midst of one.
int epochs_until_it_holds(Pace& pace) {
  for (int epochs = 1; epochs < 1000; ++epochs) {
    if (early_epoch(pace, std::chrono::milliseconds(0))) return epochs;
  }
  return 1000;
}

TEST(Pace, the_first_epochs_do_not_wait) {
  Pace pace;
  EXPECT_FALSE(pace.next_epoch_holds(false)) << "nothing was measured";
  EXPECT_FALSE(early_epoch(pace, std::chrono::milliseconds(0))) << "one close epoch is not enough";
}

TEST(Pace, waiting_begins_when_partitions_come_close_after_each_other) {
  Pace pace;
  EXPECT_GE(epochs_until_it_holds(pace), 2);
  EXPECT_TRUE(pace.next_epoch_holds(true)) << "and goes on";
}

TEST(Pace, partitions_that_come_far_apart_are_never_waited_for) {
  Pace pace;
  for (int epoch = 0; epoch < 5; ++epoch) EXPECT_FALSE(early_epoch(pace, long_gap));
}

TEST(Pace, the_time_of_a_transfer_is_no_gap) {
  Pace pace;
  bool holds = false;
  for (int epoch = 0; epoch < 100 && !holds; ++epoch) {
    for (int i = 0; i < 3; ++i) {
      pace.before_leaving();
      if (epoch < 3) std::this_thread::sleep_for(long_gap);
      pace.after_leaving();
    }
    holds = pace.next_epoch_holds(false);
  }
  EXPECT_TRUE(holds);
}

TEST(Pace, an_epoch_that_says_nothing_does_not_count) {
  Pace pace;
  for (int epoch = 0; epoch < 5; ++epoch) {
    pace.ignore_epoch();
    EXPECT_FALSE(early_epoch(pace, std::chrono::milliseconds(0)));
  }
}

TEST(Pace, a_wait_that_was_too_long_ends_waiting_and_the_next_begins_later) {
  Pace pace;
  epochs_until_it_holds(pace);
  pace.wait_was_too_long();
  EXPECT_FALSE(pace.next_epoch_holds(true));
  EXPECT_GE(epochs_until_it_holds(pace), 8);
  pace.wait_was_too_long();
  EXPECT_FALSE(pace.next_epoch_holds(true));
  EXPECT_GE(epochs_until_it_holds(pace), 32);
}

TEST(Pace, the_clock_is_read_in_the_first_epochs_that_hold_and_in_some_of_the_later_ones) {
  Pace pace;
  epochs_until_it_holds(pace);
  for (std::uint32_t epoch = 1; epoch <= Pace::clock_every; ++epoch) {
    EXPECT_TRUE(pace.is_timed()) << epoch;
    ASSERT_TRUE(pace.next_epoch_holds(true));
  }
  std::uint32_t timed = 0;
  for (std::uint32_t epoch = 0; epoch < 10 * Pace::clock_every; ++epoch) {
    timed += pace.is_timed() ? 1 : 0;
    ASSERT_TRUE(pace.next_epoch_holds(true));
  }
  EXPECT_EQ(timed, 10U);
  pace.wait_was_too_long();
  EXPECT_FALSE(pace.next_epoch_holds(true));
  epochs_until_it_holds(pace);
  EXPECT_TRUE(pace.is_timed()) << "it has just begun to hold again";
}

/// It stands still until the test moves it.
struct StoppedClock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<StoppedClock, duration>;
  static time_point now() { return time_point(passed); }
  static inline duration passed{1};
};

/// One epoch in which a group is complete that long after something began to wait for it; whether the next one holds.
bool holds_after(std::chrono::nanoseconds wait) {
  PaceBy<StoppedClock> pace;
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_FALSE(pace.next_epoch_holds(false));
    for (int i = 0; i < 3; ++i) {
      pace.before_leaving();
      pace.after_leaving();
      StoppedClock::passed += PaceBy<StoppedClock>::close_gap;
    }
  }
  EXPECT_TRUE(pace.next_epoch_holds(false)) << "no gap was too long";
  pace.begin_wait();
  StoppedClock::passed += wait;
  pace.begin_wait();  // another one joins what waits
  pace.group_is_complete();
  return pace.next_epoch_holds(true);
}

TEST(Pace, waiting_goes_on_up_to_50_us_and_ends_behind_them) {
  EXPECT_TRUE(holds_after(std::chrono::microseconds(50)));
  EXPECT_FALSE(holds_after(std::chrono::microseconds(50) + std::chrono::nanoseconds(1)));
}

TEST(Pace, a_gap_is_close_up_to_2_us) {
  for (const int longer_ns : {0, 1}) {
    PaceBy<StoppedClock> pace;
    bool holds = false;
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (int i = 0; i < 3; ++i) {
        pace.before_leaving();
        pace.after_leaving();
        StoppedClock::passed += std::chrono::nanoseconds(2000 + longer_ns);
      }
      holds = pace.next_epoch_holds(false);
    }
    EXPECT_EQ(holds, longer_ns == 0) << longer_ns;
  }
}

TEST(Pace, a_wait_that_the_clock_finds_too_long_ends_waiting) {
  Pace pace;
  epochs_until_it_holds(pace);
  pace.begin_wait();
  std::this_thread::sleep_for(long_gap);
  pace.group_is_complete();
  EXPECT_FALSE(pace.next_epoch_holds(true));
}

TEST(Pace, after_long_waiting_that_was_worth_it_one_mishap_costs_two_epochs) {
  Pace pace;
  epochs_until_it_holds(pace);
  pace.wait_was_too_long();
  EXPECT_FALSE(pace.next_epoch_holds(true));
  EXPECT_GE(epochs_until_it_holds(pace), 8);
  for (int epoch = 0; epoch < 64 * 8; ++epoch) ASSERT_TRUE(pace.next_epoch_holds(true));
  pace.wait_was_too_long();
  EXPECT_FALSE(pace.next_epoch_holds(true));
  bool holds = false;
  for (int epoch = 0; epoch < 7 && !holds; ++epoch) holds = early_epoch(pace, std::chrono::milliseconds(0));
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace partita
