// The ways of partitions through a schedule, with marks, arrivals and looks in any order and of several threads.
#include "collective/courses.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "support/walkers.hpp"

namespace partita::collective {
namespace {

class CoursesIn : public testing::TestWithParam<Memory> {};

TEST_P(CoursesIn, do_in_one_run_what_is_possible_together) {
  for (int partitions = 2; partitions <= 32; ++partitions) {
    Walkers walkers(partitions, GetParam());
    walkers.doer.arrive_all();
    EXPECT_EQ(walkers.courses.mark({0, partitions}), partitions);
    EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(1)) << partitions;
    walkers.end();
    EXPECT_EQ(walkers.doer.count(sent), walkers.in_runs(1)) << partitions;
    EXPECT_EQ(walkers.courses.actions_done(), 4U * static_cast<unsigned>(partitions));
  }
}

TEST_P(CoursesIn, do_in_two_runs_what_is_possible_on_both_sides_of_a_late_one) {
  for (int partitions = 3; partitions <= 32; ++partitions) {
    for (int late = 1; late < partitions - 1; ++late) {
      Walkers walkers(partitions, GetParam());
      walkers.doer.arrive_all();
      walkers.courses.mark({late + 1, partitions});
      EXPECT_EQ(walkers.courses.mark({0, late}), late);
      EXPECT_EQ(walkers.doer.count(reduced).runs, 2);
      walkers.doer.go_on_with_stream();
      walkers.courses.walk_all();
      EXPECT_FALSE(walkers.courses.is_over(late));
      EXPECT_TRUE(walkers.courses.is_over(late - 1) && walkers.courses.is_over(late + 1));
      walkers.courses.mark({late, late + 1});
      walkers.end();
      EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(3));
      EXPECT_EQ(walkers.doer.count(sent), walkers.in_runs(3));
    }
  }
}

/// Whoever walks goes on with them, together.
TEST_P(CoursesIn, gather_the_marks_that_come_in_the_middle_of_a_walk) {
  for (int partitions = 2; partitions <= 32; ++partitions) {
    Walkers walkers(partitions, GetParam());
    walkers.doer.arrive_all();
    test::Random random(7, static_cast<std::uint64_t>(partitions));
    const int first = random.integer(0, partitions - 1);
    bool in_the_middle = false;
    walkers.doer.when_acting = [&](int action, Range) {
      if (action != reduced || std::exchange(in_the_middle, true)) return;
      for (const int p : random.permutation(partitions)) {
        if (p != first) walkers.courses.mark({p, p + 1});
      }
      EXPECT_EQ(walkers.doer.count(marked).runs, 1) << "another one walks";
    };
    walkers.courses.mark({first, first + 1});
    const int runs = first == 0 || first == partitions - 1 ? 2 : 3;
    EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(runs)) << partitions;
    walkers.end();
  }
}

/// While a walk looks at what has come, before it comes by the marks.
TEST_P(CoursesIn, look_at_what_is_marked_in_the_middle_of_a_walk) {
  for (int partitions = 2; partitions <= 32; ++partitions) {
    Walkers walkers(partitions, GetParam());
    walkers.doer.arrive_all();
    bool in_the_middle = false;
    walkers.doer.when_looking = [&](Range) {
      if (!std::exchange(in_the_middle, true)) walkers.courses.mark({1, partitions});
    };
    walkers.courses.mark({0, 1});
    EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(2)) << "what has come of " << partitions << " is not seen";
    walkers.end();
  }
}

/// The engine may not come again soon.
TEST_P(CoursesIn, look_once_more_for_the_engine_that_comes_in_the_middle_of_a_walk) {
  Walkers walkers(32, GetParam());
  walkers.courses.mark({1, 32});
  walkers.doer.arrive(0);
  bool in_the_middle = false;
  walkers.doer.when_acting = [&](int action, Range) {
    if (action != reduced || std::exchange(in_the_middle, true)) return;
    walkers.doer.arrive_all();
    EXPECT_FALSE(walkers.courses.walk_all()) << "who walks looks";
  };
  walkers.courses.mark({0, 1});
  EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(2));
  walkers.end();
}

/// Else a mark would not come back while the engine goes on, nor would the engine rest while a walk does.
TEST_P(CoursesIn, look_for_the_engine_once_in_a_walk) {
  Walkers walkers(3, GetParam());
  walkers.courses.mark({2, 3});
  for (int mark = 0; mark < 2; ++mark) {
    int looks = 0;
    walkers.doer.when_looking = [&](Range) {
      ASSERT_LT(++looks, 100) << "the engine keeps the mark";
      EXPECT_EQ(walkers.courses.walk_all(), looks == 2) << "it comes again soon, once, where nobody looks for it";
    };
    walkers.courses.mark({mark, mark + 1});
    EXPECT_GE(looks, 3);
    EXPECT_LE(looks, 5);
  }
  walkers.doer.when_looking = [](Range) {};
  walkers.doer.arrive_all();
  walkers.end();
}

TEST_P(CoursesIn, begin_nothing_that_is_held_back) {
  Walkers walkers(5, GetParam());
  walkers.doer.held_back = {sent};
  walkers.doer.arrive_all();
  walkers.courses.mark({0, 5});
  walkers.doer.go_on_with_stream();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(1));
  EXPECT_EQ(walkers.doer.count(sent).runs, 0);
  walkers.doer.held_back.clear();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.count(sent), walkers.in_runs(1));
  EXPECT_TRUE(walkers.courses.all_are_over());
}

/// Between the runs of the first partitions and of the last ones. The owner hears of it once, and marks still return.
TEST_P(CoursesIn, do_nothing_more_where_one_of_several_runs_has_failed) {
  Walkers walkers(8, GetParam());
  walkers.may_fail = true;
  for (const int p : {0, 1, 3, 4, 6, 7}) walkers.doer.arrive(p);
  walkers.doer.when_acting = [&](int action, Range run) {
    if (action == reduced && run.begin == 3) throw Error(ErrorClass::other, "it fails");
  };
  EXPECT_EQ(walkers.courses.mark({0, 7}), 7);
  EXPECT_EQ(walkers.failures, 1);
  EXPECT_EQ(walkers.doer.count(reduced), (CountingDoer::Count{1, 2 * region_bytes}));

  walkers.doer.when_acting = [](int action, Range) { ADD_FAILURE() << "action " << action << " begins"; };
  walkers.doer.arrive_all();
  for (int look = 0; look < 3; ++look) {
    walkers.doer.go_on_with_stream();
    walkers.courses.walk_all();
  }
  const int questions = walkers.questions;
  EXPECT_EQ(walkers.courses.mark({7, 8}), 8);
  EXPECT_GT(walkers.questions, questions) << "the course was not let go of";
  EXPECT_EQ(walkers.doer.count(sent).runs, 0);
  EXPECT_EQ(walkers.failures, 1);
  EXPECT_FALSE(walkers.courses.is_over(0));
}

/// Also where the walk does nothing else.
TEST_P(CoursesIn, know_what_was_over_before_a_run_has_failed) {
  Walkers walkers(5, GetParam());
  walkers.may_fail = true;
  walkers.doer.held_back = {sent};
  for (const int p : {0, 1, 3, 4}) walkers.doer.arrive(p);
  walkers.courses.mark({0, 5});
  walkers.doer.go_on_with_stream();
  walkers.courses.walk_all();
  walkers.doer.held_back.clear();
  walkers.doer.when_acting = [](int action, Range run) {
    if (action == sent && run.begin == 3) throw Error(ErrorClass::other, "it fails");
  };
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.failures, 1);
  EXPECT_TRUE(walkers.courses.is_over(1));
  EXPECT_FALSE(walkers.courses.is_over(3));
}

/// A link is asked, which may find that its peer has gone.
TEST_P(CoursesIn, do_nothing_more_where_a_look_has_failed) {
  Walkers walkers(8, GetParam(), 4);
  walkers.may_fail = true;
  walkers.doer.when_looking = [](Range) { throw Error(ErrorClass::other, "it fails"); };
  EXPECT_EQ(walkers.courses.mark({0, 4}), 4);
  EXPECT_EQ(walkers.failures, 1);
  walkers.doer.when_looking = [](Range) { ADD_FAILURE() << "a look"; };
  walkers.doer.when_acting = [](int action, Range) { ADD_FAILURE() << "action " << action << " begins"; };
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.courses.mark({4, 8}), 8) << "of another course";
  EXPECT_EQ(walkers.failures, 1);
}

TEST_P(CoursesIn, come_to_the_end_in_any_order) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::Random random(seed);
    const int partitions = random.integer(2, random.one_in(4) ? 150 : 32);
    Walkers walkers(partitions, GetParam(), random.of<int>({1, 2, 8, 64}));
    std::vector<std::function<void()>> events;
    for (int p = 0; p < partitions; ++p) {
      events.emplace_back([&, p] { walkers.courses.mark({p, p + 1}); });
      events.emplace_back([&, p] { walkers.doer.arrive(p); });
      if (random.one_in(3)) events.emplace_back([&] { walkers.courses.walk_all(); });
      if (random.one_in(3)) events.emplace_back([&] { walkers.doer.go_on_with_stream(); });
    }
    random.shuffle(events);
    // Marks, arrivals and looks also come in the middle of walks.
    std::size_t next = 0;
    const auto go_on = [&] {
      if (next < events.size()) events[next++]();
    };
    walkers.doer.when_acting = [&](int, Range) {
      if (random.one_in(3)) go_on();
    };
    walkers.doer.when_looking = [&](Range) {
      if (random.one_in(3)) go_on();
    };
    while (next < events.size()) go_on();
    walkers.end();
    ASSERT_EQ(walkers.doer.count(sent).bytes, partitions * region_bytes) << "seed " << seed;
    ASSERT_EQ(walkers.doer.count(reduced).bytes, partitions * region_bytes) << "seed " << seed;
  }
}

TEST_P(CoursesIn, come_to_the_end_with_marks_of_several_threads) {
  constexpr int threads = 4;
  for (int epoch = 0; epoch < test::repetitions(200, 40); ++epoch) {
    test::Random random(11, static_cast<std::uint64_t>(epoch));
    const int partitions = random.integer(2, random.one_in(4) ? 150 : 32);
    Walkers walkers(partitions, GetParam(), random.of<int>({2, 8, 64}));
    const std::vector<int> marks = random.permutation(partitions), arrivals = random.permutation(partitions);
    std::atomic<int> marking{threads};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (int i = t; i < partitions; i += threads) {
          const int p = marks[static_cast<std::size_t>(i)];
          EXPECT_EQ(walkers.courses.mark({p, p + 1}), p + 1);
        }
        --marking;
      });
    }
    all.emplace_back([&] {
      for (const int p : arrivals) walkers.doer.arrive(p);
    });
    // The engine. It looks while others walk.
    while (marking > 0) {
      walkers.doer.go_on_with_stream();
      walkers.courses.walk_all();
    }
    for (std::thread& thread : all) thread.join();
    walkers.end();
    for (const int action : {reduced, sent}) {
      const CountingDoer::Count count = walkers.doer.count(action);
      ASSERT_EQ(count.bytes, partitions * region_bytes) << "epoch " << epoch;
      ASSERT_LE(count.runs, partitions);
    }
  }
}

constexpr std::int64_t kib = 1024, mib = 1024 * kib;

/// What is received, reduced and sent counts: it is a third of the work.
TEST(SideBySide, are_as_many_as_make_little_work_for_a_host) {
  EXPECT_EQ(side_by_side(pass_on(8), false), 64);
  EXPECT_EQ(side_by_side(pass_on(64 * kib / 64 / 3), false), 64);
  EXPECT_EQ(side_by_side(pass_on(1 * kib), false), 16);
  EXPECT_EQ(side_by_side(pass_on(10 * kib), false), 2);
  EXPECT_EQ(side_by_side(pass_on(11 * kib), false), 1);
  EXPECT_EQ(side_by_side(pass_on(100 * mib), false), 1);
}

TEST(SideBySide, are_fewer_in_a_schedule_that_does_more) {
  Writer writer;
  writer.mark();
  constexpr int peers = 32;
  for (int peer = 0; peer < peers; ++peer) {
    writer.receive(peer, {Buffer::received, peer, 0, kib});
    writer.send(peer, {Buffer::sent, peer, 0, kib}, {});
  }
  EXPECT_EQ(side_by_side(std::move(writer).finished(), false), 1);
}

TEST(SideBySide, are_as_many_as_make_a_small_run_on_a_gpu) {
  EXPECT_EQ(side_by_side(pass_on(8), true), 64);
  EXPECT_EQ(side_by_side(pass_on(64 * kib), true), 64);
  EXPECT_EQ(side_by_side(pass_on(65 * kib), true), 32);
  EXPECT_EQ(side_by_side(pass_on(1 * mib), true), 4);
  EXPECT_EQ(side_by_side(pass_on(3 * mib), true), 1);
  EXPECT_EQ(side_by_side(pass_on(100 * mib), true), 1);
}

TEST(SideBySide, are_a_power_of_two_in_a_schedule_without_bytes) {
  EXPECT_EQ(side_by_side(Schedule{}, false), 64);
  EXPECT_EQ(side_by_side(Schedule{}, true), 64);
}

/// What the GPU has reduced leaves while it reduces the next partitions.
TEST(Courses, of_large_partitions_end_one_after_the_other) {
  constexpr int partitions = 16, together = 4;
  Walkers walkers(partitions, Memory::gpu, side_by_side(pass_on(mib), true));
  walkers.doer.arrive_all();
  walkers.courses.mark({0, partitions});
  EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(partitions / together));
  for (int over = together; over <= partitions; over += together) {
    walkers.doer.go_on_to_next_word();
    walkers.courses.walk_all();
    EXPECT_EQ(walkers.doer.count(sent).bytes, over * region_bytes);
    EXPECT_TRUE(walkers.courses.is_over(over - 1));
  }
}

/// What comes is reduced twice.
Schedule reduce_twice() {
  Writer writer;
  const Region slot = writer.slot(region_bytes);
  const Region own{Buffer::sent, 0, 0, region_bytes};
  writer.receive(1, slot);
  writer.mark();
  EXPECT_EQ(writer.reduce(own, slot, {received, marked}), reduced);
  EXPECT_EQ(writer.reduce(own, slot, {reduced}), 3);
  EXPECT_EQ(writer.send(2, slot, {3}), 4);
  return std::move(writer).finished();
}

TEST(Courses, begin_one_action_of_a_stream_behind_the_other) {
  Walkers walkers(5, Memory::gpu, most_side_by_side, reduce_twice());
  walkers.doer.arrive_all();
  walkers.courses.mark({0, 5});
  EXPECT_EQ(walkers.doer.count(reduced), walkers.in_runs(1));
  EXPECT_EQ(walkers.doer.count(3), walkers.in_runs(1)) << "it does not wait for the end of the first one";
  EXPECT_EQ(walkers.doer.count(4).runs, 0);
  walkers.doer.go_on_to_next_word();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.finished(reduced), walkers.in_runs(1));
  EXPECT_EQ(walkers.doer.finished(3), walkers.in_runs(1)) << "one word tells of both";
  EXPECT_EQ(walkers.doer.count(4), walkers.in_runs(1));
  EXPECT_TRUE(walkers.courses.all_are_over());
}

TEST(Courses, end_one_action_of_a_stream_before_the_other) {
  Walkers walkers(5, Memory::gpu, most_side_by_side, reduce_twice());
  walkers.doer.arrive_all();
  walkers.doer.held_back = {3};
  walkers.courses.mark({0, 5});
  walkers.doer.held_back.clear();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.count(3), walkers.in_runs(1));
  walkers.doer.go_on_to_next_word();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.finished(reduced), walkers.in_runs(1));
  EXPECT_EQ(walkers.doer.finished(3).runs, 0);
  EXPECT_EQ(walkers.doer.count(4).runs, 0);
  walkers.doer.go_on_to_next_word();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.count(4), walkers.in_runs(1));
  EXPECT_TRUE(walkers.courses.all_are_over());
}

/// In however many runs they were packed, those that are packed by then leave together.
TEST(Courses, let_what_a_stream_packs_leave_at_its_end) {
  Walkers walkers(5, Memory::gpu);
  walkers.doer.on_stream = {reduced, sent};
  walkers.doer.arrive_all();
  walkers.courses.mark({0, 2});
  walkers.courses.mark({2, 4});
  EXPECT_EQ(walkers.doer.count(sent), (CountingDoer::Count{2, 4 * region_bytes}));
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.finished(sent).runs, 0);
  EXPECT_FALSE(walkers.courses.is_over(0));
  walkers.doer.go_on_with_stream();
  walkers.courses.mark({4, 5});
  EXPECT_EQ(walkers.doer.finished(sent), (CountingDoer::Count{1, 4 * region_bytes}));
  EXPECT_TRUE(walkers.courses.is_over(3));
  EXPECT_FALSE(walkers.courses.is_over(4));
  walkers.doer.go_on_with_stream();
  walkers.courses.walk_all();
  EXPECT_EQ(walkers.doer.finished(sent), (CountingDoer::Count{2, 5 * region_bytes}));
  EXPECT_TRUE(walkers.courses.all_are_over());
}

INSTANTIATE_TEST_SUITE_P(Memory, CoursesIn, testing::Values(Memory::host, Memory::gpu),
                         [](const auto& info) { return info.param == Memory::gpu ? "gpu" : "host"; });

}  // namespace
}  // namespace partita::collective
