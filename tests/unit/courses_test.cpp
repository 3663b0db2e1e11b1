// The ways of partitions through a schedule, with marks, arrivals and looks in any order and of several threads. Behind
// the actions are counts of them, and nothing else.
#include "collective/courses.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>
#include <vector>

#include "support/random.hpp"
#include "support/sanitized.hpp"

namespace partita::collective {
namespace {

using link::Range;

constexpr std::int64_t region_bytes = 24;
constexpr int received = 0, marked = 1, reduced = 2, sent = 3;

/// What comes is reduced with the own data, and sent on.
Schedule pass_on(std::int64_t bytes = region_bytes) {
  Writer writer;
  const Region slot = writer.slot(bytes);
  const Region own{Buffer::sent, 0, 0, bytes};
  EXPECT_EQ(writer.receive(1, slot), received);
  EXPECT_EQ(writer.mark(), marked);
  EXPECT_EQ(writer.reduce(own, slot, {received, marked}), reduced);
  EXPECT_EQ(writer.send(2, slot, {reduced}), sent);
  return std::move(writer).finished();
}

enum class Memory : std::uint8_t { host, gpu };

/// Counts what is done, and finds what is done twice, before its time, or by two threads at once (for the thread
/// sanitizer). In GPU memory reductions end when the stream goes on.
class CountingDoer final : public Courses::Doer {
 public:
  struct Count {
    int runs = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const Count&, const Count&) = default;
    friend void PrintTo(const Count& count, std::ostream* out) {
      *out << count.bytes << " bytes in " << count.runs << " runs";
    }
  };

  CountingDoer(const Schedule& schedule, int partitions, Memory memory)
      : schedule_(schedule), memory_(memory), counts_(schedule.actions.size()) {
    for (int p = 0; p < partitions; ++p) ways_.emplace_back(schedule.actions.size());
  }

  void arrive(int partition) { way(partition).arrived.store(true, std::memory_order_release); }
  void arrive_all() {
    for (Way& way : ways_) way.arrived.store(true, std::memory_order_release);
  }
  /// What the stream was flushed behind has ended.
  void go_on_with_stream() {
    const std::lock_guard lock(mutex_);
    reached_ = next_ - 1;
  }
  /// The stream has come to the next word only.
  void go_on_to_next_word() {
    const std::lock_guard lock(mutex_);
    ASSERT_LT(reached_, next_ - 1);
    ++reached_;
  }
  Count count(int action) {
    const std::lock_guard lock(mutex_);
    return counts_[static_cast<std::size_t>(action)];
  }

  std::function<void(int action, Range run)> when_acting = [](int, Range) {};
  std::function<void(Range partitions)> when_looking = [](Range) {};

  bool is_on_stream(int action) const override { return memory_ == Memory::gpu && action == reduced; }
  bool may_begin(int) const override { return true; }
  std::int64_t first_missing(int action, Range partitions) const override {
    EXPECT_EQ(action, received);
    when_looking(partitions);
    return link::first_not(partitions, [this](std::int64_t p) {
      return ways_[static_cast<std::size_t>(p)].arrived.load(std::memory_order_acquire);
    });
  }
  std::optional<Ticket> act(int action, Range run) override {
    for (std::int64_t p = run.begin; p < run.end; ++p) expect_in_time(action, p);
    when_acting(action, run);
    const std::lock_guard lock(mutex_);
    Count& count = counts_[static_cast<std::size_t>(action)];
    ++count.runs;
    const Action& what = schedule_.actions[static_cast<std::size_t>(action)];
    count.bytes += what.from.times(run.size()).bytes;
    if (!is_on_stream(action)) return {};
    has_begun_ = true;
    return next_;
  }
  void flush() override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_begun_, false)) ++next_;  // or another course's flush has told of it
  }
  bool ended(Ticket ticket) const override {
    const std::lock_guard lock(mutex_);
    return reached(reached_, ticket);
  }
  void finish(int action, Range run) override {
    EXPECT_EQ(action, reduced);
    for (std::int64_t p = run.begin; p < run.end; ++p) {
      EXPECT_EQ(std::exchange(way(p).stages[reduced], Stage::ended), Stage::begun) << "partition " << p;
    }
  }

 private:
  enum class Stage : std::uint8_t { none, begun, ended };
  struct Way {
    explicit Way(std::size_t actions) : stages(actions) {}
    std::atomic<bool> arrived{false};
    std::vector<Stage> stages;  ///< by action
  };

  Way& way(std::int64_t partition) { return ways_[static_cast<std::size_t>(partition)]; }
  void expect_in_time(int action, std::int64_t partition) {
    std::vector<Stage>& stages = way(partition).stages;
    for (const int before : schedule_.actions[static_cast<std::size_t>(action)].after) {
      EXPECT_EQ(stages[static_cast<std::size_t>(before)], Stage::ended) << "partition " << partition;
    }
    EXPECT_EQ(stages[static_cast<std::size_t>(action)], Stage::none) << "partition " << partition;
    stages[static_cast<std::size_t>(action)] = is_on_stream(action) ? Stage::begun : Stage::ended;
  }

  const Schedule& schedule_;
  const Memory memory_;
  std::deque<Way> ways_;
  mutable std::mutex mutex_;  ///< of the ones below
  std::vector<Count> counts_;
  Ticket next_ = 1;
  Ticket reached_ = 0;
  bool has_begun_ = false;
};

/// Partitions in courses of up to 64, or fewer.
class Walkers : private Courses::Owner {
 public:
  Walkers(int partitions_of_them, Memory memory, int side_by_side = most_side_by_side)
      : partitions(partitions_of_them),
        doer(schedule, partitions, memory),
        courses(*this, schedule, partitions, side_by_side, doer) {
    courses.restart(false);
  }

  /// What has begun ends, and all is done.
  void end() {
    while (!courses.all_are_over() && !testing::Test::HasFailure()) {
      doer.go_on_with_stream();
      courses.walk_all();
    }
  }
  CountingDoer::Count in_runs(int runs) const { return {runs, partitions * region_bytes}; }

  const Schedule schedule = pass_on();
  const int partitions;
  CountingDoer doer;
  Courses courses;

 private:
  bool may_go_on() const noexcept override { return true; }
  void could_not_go_on() noexcept override { ADD_FAILURE() << "nothing here fails"; }
};

class CoursesIn : public testing::TestWithParam<Memory> {};

TEST_P(CoursesIn, do_in_one_run_what_is_ready_together) {
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

TEST_P(CoursesIn, do_in_two_runs_what_is_ready_on_both_sides_of_a_late_one) {
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

/// Else a mark would not come back while the engine goes on.
TEST_P(CoursesIn, look_for_the_engine_once_in_a_walk) {
  Walkers walkers(2, GetParam());
  walkers.courses.mark({1, 2});
  int looks = 0;
  walkers.doer.when_looking = [&](Range) {
    ASSERT_LT(++looks, 100) << "the engine keeps the mark";
    EXPECT_EQ(walkers.courses.walk_all(), looks > 1) << "it comes again soon where nobody looks for it";
  };
  walkers.courses.mark({0, 1});
  EXPECT_GE(looks, 2);
  EXPECT_LE(looks, 4);
  walkers.doer.when_looking = [](Range) {};
  walkers.doer.arrive_all();
  walkers.end();
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

/// Of what is received, reduced and sent for one: it is a third of the work.
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

INSTANTIATE_TEST_SUITE_P(Memory, CoursesIn, testing::Values(Memory::host, Memory::gpu),
                         [](const auto& info) { return info.param == Memory::gpu ? "gpu" : "host"; });

}  // namespace
}  // namespace partita::collective
