// What runs beside the progress engine: in order, on a thread of its own, and not behind its end.
#include "two_sided/side_work.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace partita::test {
namespace {

TEST(SideWorkJobs, run_one_behind_the_other_on_one_other_thread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::atomic<int> ended{0};
  SideWork work;
  for (int job = 0; job < 20; ++job) {
    work.add([&, job] {
      order.push_back(job);
      threads.push_back(std::this_thread::get_id());
      ++ended;
    });
  }
  while (ended < 20) std::this_thread::yield();
  for (int job = 0; job < 20; ++job) EXPECT_EQ(order[static_cast<std::size_t>(job)], job);
  EXPECT_NE(threads.front(), std::this_thread::get_id());
  EXPECT_EQ(threads, std::vector(20, threads.front()));
}

TEST(SideWorkJobs, those_behind_the_last_are_dropped_with_what_they_keep) {
  std::atomic<bool> has_begun{false};
  std::atomic<bool> may_end{false};
  std::atomic<bool> has_ended{false};
  std::atomic<bool> has_run{false};
  auto kept = std::make_shared<int>(1);
  {
    SideWork work;
    work.add([&] {
      has_begun = true;
      while (!may_end) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      has_ended = true;
    });
    work.add([&has_run, kept] { has_run = true; });
    while (!has_begun) std::this_thread::yield();
    may_end = true;
  }
  EXPECT_TRUE(has_ended) << "the end waits for it";
  EXPECT_FALSE(has_run);
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace partita::test
