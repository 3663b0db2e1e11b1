// What the engine looks at in turns: a few in each step, however many there are, and all of them in the end.
#include "two_sided/looks_in_turn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/sanitized.hpp"

namespace partita::test {
namespace {

struct Thing final : LookedAt {
  bool try_to_hold() override { return mutex.try_lock(); }
  bool look_and_let_go() noexcept override {
    const std::lock_guard lock(mutex, std::adopt_lock);
    ++looks;
    if (leaves != nullptr) leaves->remove(*this);
    return has_news;
  }

  std::mutex mutex;
  int looks = 0;
  bool has_news = false;
  LooksInTurn* leaves = nullptr;  ///< as it is looked at
};

class Looks : public testing::Test {
 protected:
  void add(int count) {
    for (int i = 0; i < count; ++i) {
      things.push_back(std::make_unique<Thing>());
      looks.add(*things.back());
    }
  }
  int all_looks() const {
    int sum = 0;
    for (const auto& each : things) sum += each->looks;
    return sum;
  }
  bool all_seen() const {
    return std::ranges::all_of(things, [](const auto& each) { return each->looks > 0; });
  }

  Progress progress{0};
  std::atomic<bool> needed{true};
  LooksInTurn looks{progress, [this] { return needed.load(); }};
  std::vector<std::unique_ptr<Thing>> things;
};

TEST_F(Looks, are_none_where_none_is_needed) {
  needed = false;
  add(1000);
  for (int poll = 0; poll < 100; ++poll) progress.poll();
  EXPECT_EQ(all_looks(), 0);
  for (const auto& each : things) looks.remove(*each);
}

/// Two each, and for as long as the polls take some more, which are a hundred at most.
TEST_F(Looks, are_few_in_each_step_however_many_there_are) {
  add(100'000);
  progress.poll();
  EXPECT_LE(all_looks(), 100);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  constexpr int polls = 1000;
  const int before = all_looks();
  for (int poll = 0; poll < polls; ++poll) progress.poll();
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  EXPECT_GE(all_looks() - before, 2 * polls);
  EXPECT_LE(all_looks() - before, 2 * polls + passed.count() / 10 + 100);
  for (const auto& each : things) looks.remove(*each);
}

TEST_F(Looks, come_to_all_in_turns) {
  add(101);
  for (int poll = 0; poll < 51; ++poll) progress.poll();
  EXPECT_TRUE(all_seen());
  const auto by_looks = [](const auto& one, const auto& other) { return one->looks < other->looks; };
  const auto [least, most] = std::minmax_element(things.begin(), things.end(), by_looks);
  EXPECT_LE((*most)->looks - (*least)->looks, 1);
  for (const auto& each : things) looks.remove(*each);
}

TEST_F(Looks, leave_out_what_is_held_and_what_is_gone) {
  add(5);
  const std::unique_lock held(things[1]->mutex);
  looks.remove(*things[3]);
  looks.remove(*things[3]);
  for (int poll = 0; poll < 10; ++poll) progress.poll();
  EXPECT_EQ(things[1]->looks, 0);
  EXPECT_EQ(things[3]->looks, 0);
  for (const int seen : {0, 2, 4}) EXPECT_GT(things[static_cast<std::size_t>(seen)]->looks, 0);
  for (const auto& each : things) looks.remove(*each);
}

TEST_F(Looks, are_a_reason_for_steps_while_there_is_something) {
  progress.poll();
  EXPECT_FALSE(progress.wanted());
  for (int again = 0; again < 2; ++again) {
    add(3);
    EXPECT_TRUE(progress.wanted());
    for (const auto& each : things) each->leaves = &looks;
    for (int poll = 0; poll < 3; ++poll) progress.poll();
    EXPECT_FALSE(progress.wanted());
    EXPECT_EQ(all_looks(), 3);
    things.clear();
  }
}

TEST_F(Looks, take_a_turn_of_what_comes_and_goes_in_other_threads) {
  add(20);
  constexpr int rounds = repetitions(2000, 200);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        Thing thing;
        looks.add(thing);
        std::this_thread::yield();
        looks.remove(thing);
        const std::lock_guard lock(thing.mutex);  // who has held it has let it go
      }
    });
  }
  std::thread taker([&] {
    while (!over) progress.poll();
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  taker.join();
  for (int poll = 0; poll < 10; ++poll) progress.poll();
  EXPECT_TRUE(all_seen());
  for (const auto& each : things) looks.remove(*each);
}

}  // namespace
}  // namespace partita::test
