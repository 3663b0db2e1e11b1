// What wants steps for a while: it comes without a lock, goes when it has nothing to do, and may end in anybody's step.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/progress.hpp"

namespace partita::test {
namespace {

using Outcome = ActiveStep::Outcome;

class Scripted final : public ActiveStep {
 public:
  explicit Scripted(std::function<Outcome()> script) : script_(std::move(script)) {}
  Outcome step() noexcept override { return script_(); }

 private:
  std::function<Outcome()> script_;
};

TEST(ActiveSteps, one_step_is_taken_after_each_activation_of_what_is_idle_then) {
  Progress progress(0);
  int steps = 0;
  Scripted active([&] { return ++steps, Outcome::idle; });
  progress.poll();
  EXPECT_EQ(steps, 0);
  for (int n = 1; n <= 3; ++n) {
    progress.activate(active);
    EXPECT_TRUE(progress.wanted());
    progress.poll();
    progress.poll();
    EXPECT_EQ(steps, n);
    EXPECT_FALSE(progress.wanted());
  }
}

TEST(ActiveSteps, what_waits_or_moves_stays) {
  Progress progress(0);
  int steps = 0;
  Scripted active([&] { return ++steps < 3 ? (steps == 1 ? Outcome::waiting : Outcome::moved) : Outcome::idle; });
  progress.activate(active);
  progress.activate(active);
  for (int n = 0; n < 5; ++n) progress.poll();
  EXPECT_EQ(steps, 3);
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, steps_are_taken_in_the_order_of_coming) {
  Progress progress(0);
  std::vector<int> order;
  std::vector<std::unique_ptr<Scripted>> active;
  for (int which = 0; which < 4; ++which) {
    active.push_back(std::make_unique<Scripted>([&order, which] { return order.push_back(which), Outcome::waiting; }));
  }
  progress.activate(*active[1]);
  progress.poll();
  progress.activate(*active[3]);
  progress.activate(*active[0]);
  progress.activate(*active[2]);
  progress.poll();
  EXPECT_EQ(order, (std::vector<int>{1, 1, 3, 0, 2}));
  for (const auto& each : active) progress.dismiss(*each);
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, what_is_activated_in_its_own_step_stays_for_one_more) {
  Progress progress(0);
  int steps = 0;
  Scripted* self = nullptr;
  Scripted active([&] {
    if (++steps == 1) progress.activate(*self);
    return Outcome::idle;
  });
  self = &active;
  progress.activate(active);
  progress.poll();
  EXPECT_EQ(steps, 1) << "the second one is the next poll's";
  progress.poll();
  progress.poll();
  EXPECT_EQ(steps, 2);
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, what_is_dismissed_gets_no_step) {
  Progress progress(0);
  Scripted active([]() -> Outcome { throw std::logic_error("it was dismissed"); });
  progress.dismiss(active);
  progress.activate(active);
  progress.dismiss(active);
  progress.poll();
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, a_step_may_end_itself_its_neighbours_and_what_has_just_come) {
  Progress progress(0);
  std::array<std::unique_ptr<Scripted>, 5> active;
  std::vector<int> order;
  const auto end = [&](std::size_t which) {
    progress.dismiss(*active[which]);
    active[which].reset();
  };
  for (std::size_t which : {0u, 1u, 3u}) {
    active[which] = std::make_unique<Scripted>([&, which] {
      order.push_back(static_cast<int>(which));
      return Outcome::waiting;
    });
  }
  active[4] = std::make_unique<Scripted>([] { return Outcome::waiting; });
  active[2] = std::make_unique<Scripted>([&] {
    order.push_back(2);
    progress.activate(*active[4]);
    for (const std::size_t which : {1u, 3u, 4u, 2u}) end(which);
    return Outcome::idle;
  });
  for (std::size_t which : {0u, 1u, 2u, 3u}) progress.activate(*active[which]);
  progress.poll();
  progress.poll();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0}));
  end(0);
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, a_step_that_polls_takes_no_steps_within) {
  Progress progress(0);
  int steps = 0;
  Scripted active([&] {
    ++steps;
    progress.poll();
    return Outcome::idle;
  });
  progress.activate(active);
  progress.poll();
  EXPECT_EQ(steps, 1);
}

/// Whatever is left to a step before it is activated is done by a step that begins after that.
TEST(ActiveSteps, nothing_that_several_threads_leave_is_forgotten) {
  constexpr int threads = 3;
  constexpr int rounds = 3000;
  constexpr std::size_t steps = 4;
  Progress progress(0);
  struct Place {
    std::atomic<int> left{0};
    int done = 0;
    std::unique_ptr<Scripted> step;
  };
  std::array<Place, steps> places;
  for (Place& place : places) {
    place.step = std::make_unique<Scripted>([&place] {
      place.done += place.left.exchange(0, std::memory_order_relaxed);
      return Outcome::idle;
    });
  }
  std::vector<std::thread> leaving;
  for (int n = 0; n < threads; ++n) {
    leaving.emplace_back([&, n] {
      for (int round = 0; round < rounds; ++round) {
        Place& place = places[static_cast<std::size_t>(round + n) % steps];
        place.left.fetch_add(1, std::memory_order_relaxed);
        progress.activate(*place.step);
        if (round % 16 == n) progress.poll();
      }
    });
  }
  for (std::thread& thread : leaving) thread.join();
  progress.poll();
  int done = 0;
  for (const Place& place : places) done += place.done;
  EXPECT_EQ(done, threads * rounds);
  EXPECT_FALSE(progress.wanted());
}

TEST(ActiveSteps, come_and_end_while_another_thread_takes_steps) {
  Progress progress(1);
  progress.start_thread();
  progress.want();
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> steps{0};
    auto active = std::make_unique<Scripted>([&] { return ++steps % 2 == 0 ? Outcome::idle : Outcome::waiting; });
    progress.activate(*active);
    for (int n = 0; n < round % 50; ++n) std::this_thread::yield();
    if (round % 3 == 0) progress.activate(*active);
    progress.dismiss(*active);
    active.reset();
  }
  progress.unwant();
  EXPECT_FALSE(progress.wanted());
}

}  // namespace
}  // namespace partita::test
