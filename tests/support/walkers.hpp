// Ways of partitions through a schedule, behind whose actions are counts of them, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "collective/courses.hpp"

namespace partita::collective {

using link::Range;

inline constexpr std::int64_t region_bytes = 24;
inline constexpr int received = 0, marked = 1, reduced = 2, sent = 3;

/// What comes is reduced with the own data, and sent on.
inline Schedule pass_on(std::int64_t bytes = region_bytes) {
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
/// sanitizer). In GPU memory reductions, and what else is `on_stream`, end when the stream goes on.
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
      : schedule_(schedule), counts_(schedule.actions.size()), finished_(schedule.actions.size()) {
    for (std::size_t a = 0; memory == Memory::gpu && a < schedule.actions.size(); ++a) {
      if (schedule.actions[a].deed == Deed::reduce) on_stream.insert(static_cast<int>(a));
    }
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
  /// What has ended by itself.
  Count finished(int action) {
    const std::lock_guard lock(mutex_);
    return finished_[static_cast<std::size_t>(action)];
  }

  std::set<int> on_stream;
  std::set<int> held_back;
  std::function<void(int action, Range run)> when_acting = [](int, Range) {};
  std::function<void(Range partitions)> when_looking = [](Range) {};

  bool is_on_stream(int action) const override { return on_stream.contains(action); }
  bool may_begin(int action) const override { return !held_back.contains(action); }
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
    add(counts_, action, run);
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
    for (std::int64_t p = run.begin; p < run.end; ++p) {
      Stage& stage = way(p).stages[static_cast<std::size_t>(action)];
      EXPECT_EQ(std::exchange(stage, Stage::ended), Stage::begun) << "partition " << p;
    }
    const std::lock_guard lock(mutex_);
    add(finished_, action, run);
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
      const bool is_behind = is_on_stream(action) && is_on_stream(before);
      EXPECT_GE(stages[static_cast<std::size_t>(before)], is_behind ? Stage::begun : Stage::ended)
          << "partition " << partition;
    }
    EXPECT_EQ(stages[static_cast<std::size_t>(action)], Stage::none) << "partition " << partition;
    stages[static_cast<std::size_t>(action)] = is_on_stream(action) ? Stage::begun : Stage::ended;
  }

  void add(std::vector<Count>& counts, int action, Range run) const {
    Count& count = counts[static_cast<std::size_t>(action)];
    ++count.runs;
    count.bytes += schedule_.actions[static_cast<std::size_t>(action)].from.times(run.size()).bytes;
  }

  const Schedule& schedule_;
  std::deque<Way> ways_;
  mutable std::mutex mutex_;  ///< of the ones below
  std::vector<Count> counts_;
  std::vector<Count> finished_;
  Ticket next_ = 1;
  Ticket reached_ = 0;
  bool has_begun_ = false;
};

/// Partitions in courses of up to 64, or fewer.
class Walkers : private Courses::Owner {
 public:
  Walkers(int partitions_of_them, Memory memory, int side_by_side = most_side_by_side,
          Schedule schedule_of_them = pass_on())
      : schedule(std::move(schedule_of_them)),
        partitions(partitions_of_them),
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

  const Schedule schedule;
  const int partitions;
  CountingDoer doer;
  Courses courses;
  bool may_fail = false;
  int failures = 0;
  mutable int questions = 0;  ///< whether they may go on, once they may fail

 private:
  bool may_go_on() const noexcept override {
    if (may_fail) ++questions;
    return failures == 0;
  }
  void could_not_go_on() noexcept override {
    EXPECT_TRUE(may_fail) << "nothing here fails";
    ++failures;
  }
};

}  // namespace partita::collective
