// The progress thread without an MPI: when it sleeps, how long it naps, and what it promises those who leave it work.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/caller_polls.hpp"
#include "core/cores.hpp"
#include "core/progress.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

template <class Condition>
bool within(seconds limit, Condition condition) {
  const auto end = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(ProgressThread, takes_no_look_and_no_step_while_nothing_is_wanted) {
  std::atomic<int> steps{0};
  std::atomic<int> looks{0};
  Progress progress(1);
  progress.add([&] { return ++steps, false; });
  progress.add_look([&] { ++looks; });
  progress.start_thread();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(looks, 0);
  EXPECT_FALSE(progress.prompt());
}

/// Also where it is told so just when it goes to sleep. (A call that came between two of its reads was lost, about once
/// in a hundred thousand ends: the process hung in Finalize.)
TEST(ProgressThread, ends_whenever_it_is_told_to) {
  for (int round = 0; round < 5'000; ++round) {
    std::atomic<int> steps{0};
    Progress progress(round % 2);
    progress.add([&] { return ++steps, false; });
    progress.start_thread();
    progress.want();
    ASSERT_TRUE(within(seconds(10), [&] { return steps > 0; }));
    for (int spin = 0; spin < round % 100; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
    progress.unwant();
    progress.stop_thread();
  }
}

TEST(ProgressThread, a_reason_for_steps_wakes_it) {
  std::atomic<int> steps{0};
  Progress progress(0);
  progress.add([&] { return ++steps, false; });
  progress.start_thread();
  for (int round = 0; round < 100; ++round) {
    const int before = steps;
    progress.want();
    EXPECT_TRUE(within(seconds(10), [&] { return steps > before; }));
    progress.unwant();
  }
}

/// The thread sanitizer sees a race where the end of the reasons is no more than a number. (What a freed receive had
/// brought was read so.)
TEST(ProgressThread, what_it_has_done_is_seen_once_nothing_is_wanted) {
  for (int round = 0; round < 100; ++round) {
    int done = 0;
    Progress progress(round % 2);
    progress.add([&] {
      if (std::exchange(done, 1) == 0) progress.unwant();
      return true;
    });
    progress.start_thread();
    progress.want();
    ASSERT_TRUE(within(seconds(10), [&] { return !progress.wanted(); }));
    ASSERT_EQ(done, 1);
  }
}

TEST(CallerPolls, fill_a_nap_where_they_come_close_after_each_other) {
  CallerPolls polls;
  EXPECT_FALSE(polls.fill(microseconds(5)));
  polls.add();
  EXPECT_TRUE(polls.fill(microseconds(5)));
  EXPECT_FALSE(polls.fill(microseconds(20))) << "one in 20 us leaves the link waiting";
  polls.add();
  EXPECT_TRUE(polls.fill(microseconds(20)));
  EXPECT_FALSE(polls.fill(microseconds(1000)));
  polls.begin_nap();
  EXPECT_FALSE(polls.fill(microseconds(5))) << "what came before tells nothing of this nap";
}

/// Two that take steps wait for each other's: whoever waits for the end of a message did so, microseconds each time. So
/// the thread begins none behind a nap full of a caller's, nor soon behind one of them; but where one comes just then.
TEST(ProgressThread, leaves_the_steps_to_a_caller_that_takes_them) {
  constexpr microseconds close(3), rest(2);
  for (const bool prompt : {false, true}) {
    const auto caller = std::this_thread::get_id();
    Clock::time_point of_caller_last;  // under the engine's lock, as all of these
    int of_caller = 0, behind_caller = 0;
    std::atomic<int> of_thread{0};
    Progress progress(1);
    progress.add([&] {
      const auto now = Clock::now();
      if (std::this_thread::get_id() == caller) {
        of_caller_last = now;
        ++of_caller;
      } else {
        if (now - of_caller_last < close) ++behind_caller;
        ++of_thread;
      }
      return true;
    });
    progress.start_thread();
    progress.want();
    if (prompt) progress.want_prompt();
    for (const auto end = Clock::now() + milliseconds(50); Clock::now() < end;) {
      progress.poll();
      for (const auto rested = Clock::now() + rest; Clock::now() < rested;) {
      }
    }
    {
      const auto no_step = progress.exclusive();
      EXPECT_LE(behind_caller, 3 + of_caller / 50) << (prompt ? "prompt" : "not prompt");
    }
    const int before = of_thread;
    EXPECT_TRUE(within(seconds(10), [&] { return of_thread > before + 10; })) << "nobody takes steps any more";
    if (prompt) progress.unwant_prompt();
    progress.unwant();
  }
}

TEST(ProgressThread, promptness_alone_takes_looks_and_no_steps) {
  std::atomic<int> steps{0};
  std::atomic<int> looks{0};
  Progress progress(1);
  progress.add([&] { return ++steps, false; });
  progress.add_look([&] { ++looks; });
  progress.start_thread();
  progress.want_prompt();
  EXPECT_TRUE(within(seconds(10), [&] { return looks > 100; }));
  EXPECT_EQ(steps, 0);
  progress.unwant_prompt();
  EXPECT_TRUE(within(seconds(10), [&] { return !progress.prompt(); }));
}

TEST(ProgressThread, looks_do_not_wait_for_a_long_step_of_another_thread) {
  std::atomic<int> looks{0};
  Progress progress(1);
  progress.add_look([&] { ++looks; });
  progress.start_thread();
  progress.want();
  progress.want_prompt();
  {
    const auto exclusive = progress.exclusive();
    const int before = looks;
    EXPECT_TRUE(within(seconds(10), [&] { return looks > before + 10; }));
  }
  progress.unwant_prompt();
  progress.unwant();
}

TEST(ProgressThread, is_not_prompt_while_it_takes_a_step) {
  std::atomic<bool> was_prompt{false};
  std::atomic<int> steps{0};
  Progress progress(1);
  progress.add([&] {
    if (progress.prompt()) was_prompt = true;
    return ++steps, false;
  });
  progress.start_thread();
  progress.want();
  progress.want_prompt();
  EXPECT_TRUE(within(seconds(10), [&] { return steps > 100; }));
  EXPECT_FALSE(was_prompt);
  progress.unwant_prompt();
  progress.unwant();
}

TEST(ProgressThread, promises_nothing_without_a_thread_or_a_spare_core) {
  Progress without_thread(1);
  without_thread.want_prompt();
  EXPECT_FALSE(without_thread.prompt());

  std::atomic<int> looks{0};
  Progress without_core(0);
  without_core.add_look([&] { ++looks; });
  without_core.start_thread();
  without_core.want_prompt();
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(without_core.prompt());
  EXPECT_EQ(looks, 0);
}

TEST(ProgressThread, goes_on_for_a_moment_when_nobody_wants_it_prompt_any_more_and_then_sleeps) {
  std::atomic<int> looks{0};
  Progress progress(1);
  progress.add_look([&] { ++looks; });
  progress.start_thread();
  progress.want_prompt();
  ASSERT_TRUE(within(seconds(10), [&] { return progress.prompt(); }));
  const int before = looks;  // no later: the moment may be over before this thread runs again
  progress.unwant_prompt();
  EXPECT_TRUE(within(seconds(10), [&] { return looks > before + 5; }));
  EXPECT_TRUE(within(seconds(10), [&] { return !progress.prompt(); }));
  EXPECT_TRUE(within(seconds(10), [&] {  // the last look comes behind the end of the promise
    const int seen = looks;
    std::this_thread::sleep_for(milliseconds(20));
    return looks == seen;
  })) << "it does not sleep";
  EXPECT_FALSE(progress.prompt());
}

/// The promise of prompt(): a flag that was set before it said true is seen by a look, also where promptness comes and
/// goes.
TEST(ProgressThread, whoever_finds_it_prompt_is_looked_at) {
  constexpr int threads = 2;
  constexpr int rounds = 2000;
  struct alignas(64) Flag {
    std::atomic<int> set{0};
  };
  std::vector<Flag> flags(threads);
  Progress progress(1);
  progress.add_look([&] {
    for (Flag& flag : flags) {
      if (flag.set.load() != 0) flag.set.store(0);
    }
  });
  progress.start_thread();
  std::atomic<int> promised{0};
  std::vector<std::thread> marking;
  for (Flag& flag : flags) {
    marking.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        if (round % 100 == 0) {
          std::this_thread::sleep_for(milliseconds(2));  // past the moment for which the thread goes on
          progress.want_prompt();
          within(seconds(10), [&] { return progress.prompt(); });
        }
        flag.set.store(1);
        if (progress.prompt()) {
          ++promised;
          EXPECT_TRUE(within(seconds(10), [&] { return flag.set.load() == 0; }));
        } else {
          flag.set.store(0);
        }
        if (round % 100 == 50) progress.unwant_prompt();
      }
    });
  }
  for (std::thread& thread : marking) thread.join();
  EXPECT_GT(promised, 0);
}

/// The times between 401 calls of `now`.
class Intervals {
 public:
  void now() {
    if (full()) return;
    const auto time = Clock::now();
    if (last_ != Clock::time_point()) between_.push_back(time - last_);
    last_ = time;
    full_ = between_.size() == 400;
  }
  bool full() const { return full_; }
  Clock::duration median() {
    std::ranges::nth_element(between_, between_.begin() + 200);
    return between_[200];
  }

 private:
  std::vector<Clock::duration> between_;
  Clock::time_point last_;
  std::atomic<bool> full_{false};
};

/// The median time from look to look.
Clock::duration nap_of_progress_thread() {
  Intervals looks;
  Progress progress(1);
  progress.add_look([&] { looks.now(); });
  progress.start_thread();
  progress.want_prompt();
  const bool full = within(seconds(10), [&] {
    std::this_thread::sleep_for(milliseconds(1));
    return looks.full();
  });
  progress.unwant_prompt();
  progress.stop_thread();
  EXPECT_TRUE(full);
  return full ? looks.median() : seconds(10);
}

/// The median time of sleeps of 20 us in a thread that has its timers as exact as the system makes them.
Clock::duration bare_sleep() {
  Intervals sleeps;
  std::thread([&] {
    ::prctl(PR_SET_TIMERSLACK, 1UL);  // ns
    while (!sleeps.full()) {
      std::this_thread::sleep_for(microseconds(20));
      sleeps.now();
    }
  }).join();
  return sleeps.median();
}

/// Where other processes use the cores up no thread wakes in time. So naps and sleeps take turns: at the same time, one
/// would end with the other's timer.
TEST(ProgressThread, a_prompt_nap_takes_20_microseconds) {
  const std::array shares{own_core_share()};
  if (cores_together(shares) < 2) GTEST_SKIP() << "needs two cores";
  constexpr microseconds longest_nap(60), longest_idle_sleep(40), most_added(30);
  constexpr int attempts = 16, wanted = attempts / 2;
  const auto end = Clock::now() + seconds(20);
  std::string told = "median times of naps, and of sleeps of 20 us between them:";
  int idle = 0, in_time = 0;
  for (int attempt = 0; attempt < attempts && in_time < wanted && Clock::now() < end; ++attempt) {
    const auto nap = nap_of_progress_thread(), sleep = bare_sleep();
    told += fmt::format(" {} and {} us;", nap / microseconds(1), sleep / microseconds(1));
    if (sleep > longest_idle_sleep) continue;
    ++idle;
    if (nap <= std::min<Clock::duration>(sleep + most_added, longest_nap)) ++in_time;
  }
  if (idle < wanted) GTEST_SKIP() << "needs two idle cores; " << told;
  EXPECT_GE(2 * in_time, idle) << told;
}

}  // namespace
}  // namespace partita::test
