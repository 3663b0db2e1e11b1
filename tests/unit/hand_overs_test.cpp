// What kernels leave to the host, taken together where it comes close after each other.
#include "partitioned/gpu/hand_overs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/sanitized.hpp"

namespace partita::test {
namespace {

constexpr Epoch shown_epoch = 7;
constexpr std::int32_t shown_partitions = 8;
constexpr std::int32_t many_partitions = 100;

/// What kernels have handed over, as a DeviceSide shows it.
struct ShownSide {
  std::vector<bool> there = std::vector<bool>(shown_partitions);
  Epoch epoch = shown_epoch;
  bool says_all = false;  ///< in one word
  bool kernels_copied_some = false;
  mutable int looks = 0;  ///< at a partition

  bool hands_over(Epoch) const { return true; }
  bool completed(Epoch of) const { return of == epoch && says_all; }
  bool all_handed_over(Epoch of) const { return !kernels_copied_some && completed(of); }
  std::uint32_t handed_over(std::int32_t first, std::int32_t count, Epoch of) const {
    looks += count;
    std::uint32_t shown = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      shown |= std::uint32_t{of == epoch && there[static_cast<std::size_t>(first + i)]} << i;
    }
    return shown;
  }
};

/// Kernels that mark one partition of `to_come` in each wait, for `waits` of them.
struct MarkingKernels {
  ShownSide& side;
  std::vector<std::size_t> to_come;
  int waits = 1000;
  int* waited = nullptr;

  template <class AllThere>
  bool wait(AllThere all_there) {
    EXPECT_FALSE(all_there()) << "nothing is left to wait for";
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
  static auto into(Runs& runs) {
    return [&runs](link::Range run) { runs.push_back({run.begin, run.end}); };
  }
  MarkingKernels kernels(std::vector<std::size_t> to_come, int waits) {
    waited = 0;
    return {side, std::move(to_come), waits, &waited};
  }
  /// What leaves, as {begin, end}; how many are handed over is in `count`.
  Runs take(std::vector<std::size_t> to_come, int waits = 1000) {
    Runs runs;
    count = hand_overs.take_together(side, side.epoch, into(runs), kernels(std::move(to_come), waits)).value();
    return runs;
  }
  Runs take_transfers(std::vector<std::size_t> to_come, int waits = 1000, std::int32_t enough = 1000,
                      HandOvers::Joining joining = HandOvers::Joining::stay) {
    Runs runs;
    const auto marks = kernels(std::move(to_come), waits);
    count =
        hand_overs.take_transfers(side, side.epoch, into(runs), marks, enough, joining, HandOvers::From::call).value();
    return runs;
  }
  template <class Marks>
  Runs take_in_a_step(Marks marks) {
    Runs runs;
    hand_overs.take_transfers(side, side.epoch, into(runs), marks, 1000, HandOvers::Joining::leave,
                              HandOvers::From::step);
    return runs;
  }
  static void let_calls_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  /// As many partitions as fill several words, of which none is there.
  void take_many() {
    hand_overs.set_up(many_partitions);
    side.there.assign(many_partitions, false);
  }
  void show(std::size_t first, std::size_t end) {
    for (std::size_t t = first; t < end; ++t) side.there[t] = true;
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
  take_many();
  show(0, 64);
  show(70, 71);
  EXPECT_EQ(take({}), (Runs{{0, 64}, {70, 71}}));
  side.looks = 0;
  EXPECT_EQ(take({}), Runs{});
  EXPECT_EQ(count, 65);
  EXPECT_EQ(side.looks, many_partitions - 64) << "those in front are known";
}

TEST_F(HandOversTest, runs_go_across_words) {
  take_many();
  show(20, 50);
  show(60, 65);
  EXPECT_EQ(take({}), (Runs{{20, 50}, {60, 65}}));
  EXPECT_EQ(count, 35);
  show(50, 60);
  show(96, many_partitions);
  EXPECT_EQ(take({}), (Runs{{50, 60}, {96, many_partitions}}));
  EXPECT_EQ(count, 49);
  show(0, 20);
  show(65, 96);
  EXPECT_EQ(take({}), (Runs{{0, 20}, {65, 96}}));
  EXPECT_EQ(count, many_partitions);
}

TEST_F(HandOversTest, all_of_them_are_looked_at_in_one_word) {
  take_many();
  show(10, 12);
  EXPECT_EQ(take({}), (Runs{{10, 12}}));
  show(0, many_partitions);
  side.says_all = true;
  side.looks = 0;
  EXPECT_EQ(take({}), (Runs{{0, 10}, {12, many_partitions}}));
  EXPECT_EQ(count, many_partitions);
  EXPECT_EQ(take({}), Runs{});
  EXPECT_EQ(side.looks, 0);
  EXPECT_EQ(waited, 0);
}

TEST_F(HandOversTest, what_is_worth_a_transfer_leaves_though_more_come) {
  take_many();
  show(0, 40);
  show(45, 50);
  EXPECT_EQ(take_transfers({}, 1000, 40), (Runs{{0, 40}})) << "the others of it may be joined by what comes";
  EXPECT_EQ(waited, 0);
  EXPECT_EQ(count, 45);
  EXPECT_EQ(take_transfers({40, 41, 42, 43, 44}, 1000, 40), (Runs{{40, 50}}));
  show(50, many_partitions);
  EXPECT_EQ(take_transfers({}, 1000, 40), (Runs{{50, many_partitions}}));
}

/// As blocks that end out of order leave gaps where they run, and none behind.
TEST_F(HandOversTest, what_soon_joins_stays_while_more_come) {
  take_many();
  show(0, 50);
  show(52, 53);
  show(55, 57);
  show(60, 72);
  EXPECT_EQ(take_transfers({50}, 1), (Runs{{0, 51}}));
  EXPECT_EQ(count, 66);
  show(51, 60);
  show(72, 90);
  show(95, 96);
  EXPECT_EQ(take_transfers({90}, 1), (Runs{{51, 91}}));
  show(91, many_partitions);
  EXPECT_EQ(take_transfers({}), (Runs{{91, many_partitions}}));
}

/// Its neighbours may be late for longer than the kernel marks others.
TEST_F(HandOversTest, a_short_run_stays_once) {
  take_many();
  show(0, 20);
  show(63, 65);  // in two words
  EXPECT_EQ(take_transfers({20}, 1), (Runs{{0, 21}}));
  show(21, 36);
  show(80, 81);
  EXPECT_EQ(take_transfers({36}, 1), (Runs{{21, 37}, {63, 65}})) << "16 are the longest";
  show(37, 52);
  EXPECT_EQ(take_transfers({52}, 1), (Runs{{37, 53}, {80, 81}}));
}

TEST_F(HandOversTest, what_is_worth_a_transfer_is_not_short) {
  take_many();
  show(0, 10);
  show(15, 24);
  show(25, 99);
  EXPECT_EQ(take_transfers({}, 1000, 10), (Runs{{0, 10}}));
}

/// The receiver would have to be told of each partition in it.
TEST_F(HandOversTest, a_run_behind_a_gap_stays_once) {
  take_many();
  show(0, 30);
  show(31, 70);
  EXPECT_EQ(take_transfers({}, 1000, 20), (Runs{{0, 30}}));
  show(70, 75);
  EXPECT_EQ(take_transfers({}, 1000, 20), (Runs{{31, 75}})) << "with what has joined it";
  show(75, 99);
  EXPECT_EQ(take_transfers({}, 1000, 20), Runs{}) << "the gap is not closed by what lies beside it";
  show(30, 31);
  EXPECT_EQ(take_transfers({}, 1000, 20), (Runs{{30, 31}, {75, 99}}));
}

TEST_F(HandOversTest, behind_the_last_gap_nothing_stays) {
  take_many();
  show(1, 40);
  EXPECT_EQ(take_transfers({}, 1000, 20), Runs{});
  show(0, 1);
  show(40, 80);
  EXPECT_EQ(take_transfers({}, 1000, 20), (Runs{{0, 80}}));
  show(80, 99);
  EXPECT_EQ(take_transfers({}, 1000, 10), (Runs{{80, 99}}));
}

TEST_F(HandOversTest, a_few_behind_a_gap_leave) {
  take_many();
  show(0, 4);
  show(6, 10);
  show(11, 16);
  EXPECT_EQ(take_transfers({50}, 1), (Runs{{0, 4}, {6, 10}, {50, 51}})) << "4 are few, 5 are not";
}

TEST_F(HandOversTest, short_runs_leave_once_nothing_comes) {
  take_many();
  show(0, 40);
  show(45, 46);
  EXPECT_EQ(take_transfers({40, 41}), (Runs{{0, 42}, {45, 46}}));
  EXPECT_EQ(waited, 3) << "the last of them for nothing";
}

TEST_F(HandOversTest, short_runs_stay_in_their_own_epoch) {
  take_many();
  show(0, 40);
  show(45, 46);
  EXPECT_EQ(take_transfers({40}, 1), (Runs{{0, 41}}));
  side.epoch = shown_epoch + 1;
  EXPECT_EQ(take_transfers({41}, 1), (Runs{{0, 42}}));
}

TEST_F(HandOversTest, at_the_end_nothing_stays_for_being_short) {
  take_many();
  show(0, 20);
  show(61, 95);
  show(96, many_partitions);
  EXPECT_EQ(take_transfers({}, 0), (Runs{{0, 20}}));
  EXPECT_EQ(take_transfers({}, 0), (Runs{{61, 95}, {96, many_partitions}}));
  show(0, many_partitions);
  EXPECT_EQ(take_transfers({}, 0), (Runs{{20, 61}, {95, 96}})) << "1 beside 41";
}

/// Where kernels copy, and hand over some, not all of them ever are.
TEST_F(HandOversTest, once_the_kernels_have_ended_nothing_stays_and_nothing_is_waited_for) {
  take_many();
  show(0, 40);
  show(45, 46);
  EXPECT_EQ(take_transfers({}, 0), (Runs{{0, 40}}));
  show(50, 90);
  side.kernels_copied_some = true;
  side.says_all = true;
  show(95, 96);
  EXPECT_EQ(take_transfers({}), (Runs{{45, 46}, {50, 90}, {95, 96}}));
  EXPECT_EQ(waited, 0);
  EXPECT_EQ(count, 82);
}

TEST_F(HandOversTest, where_nobody_looks_again_soon_all_runs_leave) {
  take_many();
  show(0, 40);
  show(45, 46);
  show(50, 90);
  EXPECT_EQ(take_transfers({}, 0, 1000, HandOvers::Joining::leave), (Runs{{0, 40}, {45, 46}, {50, 90}}));
}

TEST_F(HandOversTest, what_lies_far_behind_is_left_while_more_come) {
  constexpr std::int32_t very_many = 2000;
  hand_overs.set_up(very_many);
  side.there.assign(very_many, false);
  show(0, 40);
  show(1500, 1503);
  EXPECT_EQ(take({}, 0), (Runs{{0, 40}}));
  EXPECT_LT(side.looks, 1500);
  show(40, 70);
  EXPECT_EQ(take({}, 0), (Runs{{40, 70}, {1500, 1503}})) << "though more come in front";
  EXPECT_EQ(count, 73);
  show(1510, 1511);
  EXPECT_EQ(take({}, 0), (Runs{{1510, 1511}})) << "nothing new lies before it";

  show(70, 71);
  show(1700, 1703);
  side.kernels_copied_some = true;
  side.says_all = true;
  EXPECT_EQ(take({}), (Runs{{70, 71}, {1700, 1703}})) << "nothing is left once the kernels have ended";
  EXPECT_EQ(count, 78);
}

/// What follows a call is one, for as long as this says: the thread may lose its core for longer.
class Since {
 public:
  bool is_short() const { return Clock::now() - begin_ < std::chrono::microseconds(50); }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
};

TEST_F(HandOversTest, a_step_leaves_all_to_a_call_that_looks_again_and_again) {
  for (bool was_short = false; !was_short;) {
    side.epoch += 1;
    side.there.assign(shown_partitions, false);
    const Since since;
    take({});
    show(0, 1);
    const Runs runs = take_in_a_step(kernels({}, 1));
    was_short = since.is_short();
    EXPECT_EQ(runs, was_short ? Runs{} : runs);
  }
  let_calls_pass();
  EXPECT_EQ(take_in_a_step(kernels({}, 1)), (Runs{{0, 1}}));
}

/// Kernels whose marks are waited for when a call comes.
struct CallComes {
  HandOvers& hand_overs;
  const ShownSide& side;
  bool& was_short;

  template <class Stop>
  bool wait(Stop stop) const {
    const Since since;
    EXPECT_EQ(hand_overs.take_together(side, side.epoch, [](link::Range) {}, CloseMarks()), std::nullopt);
    const bool stops = stop();
    was_short = since.is_short();
    EXPECT_TRUE(stops || !was_short);
    return true;
  }
};

TEST_F(HandOversTest, a_step_that_waits_for_close_marks_leaves_them_to_a_call) {
  show(0, 1);
  for (bool was_short = false; !was_short;) {
    side.epoch += 1;
    const Since since;
    const Runs runs = take_in_a_step(CallComes{hand_overs, side, was_short});
    was_short = was_short && since.is_short();
    EXPECT_EQ(runs, was_short ? Runs{} : runs);
    if (!was_short) let_calls_pass();
  }
  EXPECT_EQ(take({}), (Runs{{0, 1}}));
}

TEST_F(HandOversTest, an_epoch_of_the_same_number_behind_the_wrap_is_new) {
  take_many();
  show(0, many_partitions);
  side.says_all = true;
  EXPECT_EQ(take({}), (Runs{{0, many_partitions}}));
  hand_overs.forget();
  EXPECT_EQ(take({}), (Runs{{0, many_partitions}})) << "an epoch of this number comes again after the wrap";
}

TEST_F(HandOversTest, what_stayed_before_the_wrap_is_forgotten) {
  take_many();
  show(0, 40);
  show(45, 46);
  EXPECT_EQ(take_transfers({40}, 1), (Runs{{0, 41}}));
  hand_overs.forget();
  EXPECT_EQ(take_transfers({41}, 1), (Runs{{0, 42}}));
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

TEST_F(HandOversTest, the_next_epoch_is_new) {
  take_many();
  show(0, many_partitions);
  EXPECT_EQ(take({}), (Runs{{0, many_partitions}}));
  side.epoch = shown_epoch + 1;
  show(50, 60);
  EXPECT_EQ(take({}), (Runs{{0, many_partitions}}));
  EXPECT_EQ(count, many_partitions);
}

/// Each of two would get pieces of what is one run.
TEST_F(HandOversTest, one_thread_takes_at_a_time) {
  show(0, 2);
  bool asked = false;
  const auto ask = [&](link::Range) {
    std::thread([&] {
      const auto take_none = [](link::Range) { ADD_FAILURE() << "another thread is at it"; };
      EXPECT_EQ(hand_overs.take_together(side, side.epoch, take_none, CloseMarks()), std::nullopt);
      EXPECT_EQ(hand_overs.take_transfers(side, side.epoch, take_none, CloseMarks(), 1, HandOvers::Joining::leave,
                                          HandOvers::From::call),
                std::nullopt);
      asked = true;
    }).join();
  };
  EXPECT_EQ(hand_overs.take_together(side, side.epoch, ask, CloseMarks::within_one_gap()), 2);
  EXPECT_TRUE(asked);
  show(2, 3);
  EXPECT_EQ(take({}), (Runs{{2, 3}})) << "it is through";
}

TEST_F(HandOversTest, one_that_throws_is_through) {
  show(0, 1);
  const auto fail = [](link::Range) { throw std::runtime_error("the link is down"); };
  EXPECT_THROW(hand_overs.take_together(side, side.epoch, fail, CloseMarks::within_one_gap()), std::runtime_error);
  show(1, 2);
  EXPECT_EQ(take({}), (Runs{{1, 2}}));
}

/// Kernels that write bytes, and then say so, while two threads take.
TEST(HandOversThreads, each_partition_is_taken_once_and_its_bytes_are_there) {
  constexpr std::int32_t partitions = 1000;
  constexpr int rounds = repetitions(200, 20);
  struct Side {
    std::vector<int> bytes = std::vector<int>(partitions);
    std::vector<std::atomic<Epoch>> marked = std::vector<std::atomic<Epoch>>(partitions);
    bool hands_over(Epoch) const { return true; }
    bool completed(Epoch) const { return false; }
    bool all_handed_over(Epoch) const { return false; }
    std::uint32_t handed_over(std::int32_t first, std::int32_t count, Epoch epoch) const {
      std::uint32_t shown = 0;
      for (std::int32_t i = 0; i < count; ++i) {
        const auto& word = marked[static_cast<std::size_t>(first + i)];
        shown |= std::uint32_t{word.load(std::memory_order_acquire) == epoch} << i;
      }
      return shown;
    }
  } side;
  HandOvers hand_overs;
  hand_overs.set_up(partitions);
  for (int round = 1; round <= rounds; ++round) {
    const auto epoch = static_cast<Epoch>(round);
    std::vector<std::atomic<int>> taken(partitions);
    std::atomic<int> missing{partitions};
    std::atomic<int> wrong{0};
    const auto take = [&](link::Range run) {
      for (std::int64_t t = run.begin; t < run.end; ++t) {
        const auto at = static_cast<std::size_t>(t);
        if (side.bytes[at] != round || taken[at].fetch_add(1) != 0) ++wrong;
        --missing;
      }
    };
    const auto take_all = [&] {
      constexpr std::int32_t enough = 64;
      while (missing.load() > 0) {
        if (round % 2 == 0) {
          hand_overs.take_together(side, epoch, take, CloseMarks::within_one_gap());
        } else {
          hand_overs.take_transfers(side, epoch, take, CloseMarks::within_one_gap(), enough, HandOvers::Joining::stay,
                                    HandOvers::From::call);
        }
      }
    };
    std::thread other(take_all);
    std::thread kernels([&] {
      for (std::size_t i = 0; i < partitions; ++i) {
        const std::size_t t = i * 7 % partitions;
        side.bytes[t] = round;
        side.marked[t].store(epoch, std::memory_order_release);
      }
    });
    take_all();
    kernels.join();
    other.join();
    ASSERT_EQ(wrong, 0) << "round " << round;
  }
}

bool never() {
  return false;
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
  ASSERT_TRUE(marks.wait(never));
  EXPECT_GE(SteppingClock::passed - begin, CloseMarks::longest_pause);
  int waits = 1;
  while (marks.wait(never)) ++waits;
  EXPECT_GE(waits, 4) << "each takes ten microseconds and some looks, of 50 in all";
  EXPECT_LE(waits, 5);
}

TEST(CloseMarksTest, are_not_waited_for_once_all_are_there) {
  CloseMarksBy<SteppingClock> marks;
  const auto begin = SteppingClock::passed;
  EXPECT_TRUE(marks.wait([&] { return SteppingClock::passed - begin >= std::chrono::nanoseconds(900); }));
  EXPECT_LT(SteppingClock::passed - begin, CloseMarks::longest_pause);
}

/// However many keep coming.
TEST(CloseMarksTest, are_waited_for_once_within_one_gap) {
  auto marks = CloseMarksBy<SteppingClock>::within_one_gap();
  const auto begin = SteppingClock::passed;
  ASSERT_TRUE(marks.wait(never));
  EXPECT_GE(SteppingClock::passed - begin, Pace::close_gap);
  EXPECT_FALSE(marks.wait(never));
  EXPECT_LE(SteppingClock::passed - begin, 2 * Pace::close_gap);
}

/// Whoever waits has looked at all partitions before, which may take longer than a gap.
TEST(CloseMarksTest, are_waited_for_after_a_look_that_takes_long) {
  auto marks = CloseMarksBy<SteppingClock>::within_one_gap();
  SteppingClock::passed += 2 * Pace::close_gap;
  const auto begin = SteppingClock::passed;
  EXPECT_TRUE(marks.wait(never));
  EXPECT_GE(SteppingClock::passed - begin, Pace::close_gap);
  EXPECT_FALSE(marks.wait(never));
}

TEST(RecentCallsTest, are_recent_for_some_looks) {
  RecentCallsBy<SteppingClock> calls;
  EXPECT_FALSE(calls.any()) << "there was none";
  calls.note();
  EXPECT_TRUE(calls.any());
  SteppingClock::passed += std::chrono::microseconds(40);
  EXPECT_TRUE(calls.any());
  SteppingClock::passed += std::chrono::microseconds(10);
  EXPECT_FALSE(calls.any());
  calls.note();
  EXPECT_TRUE(calls.any());
}

}  // namespace
}  // namespace partita::test
