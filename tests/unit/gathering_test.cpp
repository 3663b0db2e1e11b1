// Which transport partitions leave by which partition, against a plain count.
#include "transfer/gathering.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "support/random.hpp"

namespace partita {
namespace {

using link::Plan;
using link::Range;

struct Shape {
  std::int32_t partitions;
  std::int32_t transports;
  std::int32_t transfers;
};

Shape random_shape(test::Random& random) {
  Shape shape{};
  shape.partitions = static_cast<std::int32_t>(random.between(1, random.one_in(2) ? 20 : 400));
  shape.transports =
      random.one_in(2) ? shape.partitions : static_cast<std::int32_t>(random.between(1, shape.partitions));
  shape.transfers = static_cast<std::int32_t>(random.between(1, shape.transports));
  return shape;
}

/// Counts what leaves.
class Departures {
 public:
  explicit Departures(std::int32_t transports) : times_(static_cast<std::size_t>(transports)) {}
  void operator()(Range run) {
    EXPECT_GT(run.size(), 0);
    for (std::int64_t t = run.begin; t < run.end; ++t) ++times_[static_cast<std::size_t>(t)];
  }
  int times(std::int64_t t) const { return times_[static_cast<std::size_t>(t)]; }

 private:
  std::vector<int> times_;
};

bool all_in(const std::vector<bool>& complete, Range partitions) {
  for (std::int64_t p = partitions.begin; p < partitions.end; ++p) {
    if (!complete[static_cast<std::size_t>(p)]) return false;
  }
  return true;
}

template <class Leave>
bool add(Gathering& gathering, std::int64_t partition, Leave leave) {
  const Gathering::Added added = gathering.add(partition);
  if (added == Gathering::Added::completes) gathering.leave_with(partition, leave, [] {});
  return added != Gathering::Added::already_there;
}

/// The transport partitions that leave with `t` in an epoch that holds.
Range group_of(const Shape& shape, std::int64_t t) {
  const std::int64_t group = ((t + 1) * shape.transfers - 1) / shape.transports;
  return {group * shape.transports / shape.transfers, (group + 1) * shape.transports / shape.transfers};
}

TEST(Gathering, lets_each_transport_partition_leave_once_when_it_or_its_group_is_complete) {
  test::Random random(20260301, 1);
  for (int round = 0; round < 120; ++round) {
    const Shape shape = random_shape(random);
    const Plan plan(shape.partitions, 1, shape.transports, shape.partitions * 8);
    Gathering gathering(shape.partitions);
    gathering.connect(plan, shape.transfers);
    EXPECT_EQ(gathering.may_hold(), shape.transfers < shape.transports);
    for (int epoch = 0; epoch < 4; ++epoch) {
      const bool holds = gathering.may_hold() && random.one_in(2);
      gathering.begin(holds, static_cast<Epoch>(epoch + 2));
      Departures left(shape.transports);
      std::vector<bool> complete(static_cast<std::size_t>(shape.partitions));
      bool all_taken = false;
      for (const std::int32_t first : random.permutation(shape.partitions)) {
        const std::int64_t end = random.one_in(3) ? random.between(first + 1, shape.partitions) : first + 1;
        std::int64_t expected_end = first;
        while (expected_end < end && !complete[static_cast<std::size_t>(expected_end)]) ++expected_end;
        const auto leave = [&](Range run) { left(run); };
        const std::int64_t told = end == first + 1 && random.one_in(2) ? first + (add(gathering, first, leave) ? 1 : 0)
                                                                       : gathering.add(Range{first, end}, leave, [] {});
        ASSERT_EQ(told, expected_end);
        for (std::int64_t p = first; p < told; ++p) complete[static_cast<std::size_t>(p)] = true;
        if (holds && random.one_in(10)) {
          const bool something = gathering.held() != 0;
          bool did_leave = false;
          gathering.leave_held([&](Range run) {
            left(run);
            did_leave = true;
          });
          EXPECT_EQ(something, did_leave);
          EXPECT_EQ(gathering.held(), 0U);
          all_taken = true;
        } else {
          all_taken = false;
        }
        for (std::int64_t t = 0; t < shape.transports; ++t) {
          const bool ready = all_in(complete, plan.send_run(t));
          ASSERT_LE(left.times(t), ready ? 1 : 0) << "transport partition " << t;
          const Range group = holds ? group_of(shape, t) : Range{t, t + 1};
          const bool must =
              all_taken ? ready
                        : all_in(complete, {plan.send_run(group.begin).begin, plan.send_run(group.end - 1).end});
          ASSERT_GE(left.times(t), must ? 1 : 0) << "transport partition " << t << " of " << shape.transports;
        }
      }
    }
  }
}

TEST(Gathering, of_what_was_kept_all_that_is_complete_leaves_at_the_match) {
  test::Random random(20260301, 2);
  for (int round = 0; round < 80; ++round) {
    const Shape shape = random_shape(random);
    const Plan plan(shape.partitions, 1, shape.transports, shape.partitions * 8);
    Gathering gathering(shape.partitions);
    gathering.begin(false, 2);
    std::vector<bool> complete(static_cast<std::size_t>(shape.partitions));
    for (std::int64_t p = 0; p < shape.partitions; ++p) {
      if (random.one_in(2)) continue;
      EXPECT_EQ(gathering.keep({p, p + 1}), p + 1);
      EXPECT_EQ(gathering.keep({p, p + 1}), p) << "twice";
      complete[static_cast<std::size_t>(p)] = true;
    }
    gathering.connect(plan, shape.transfers);
    Departures left(shape.transports);
    for (const Range run : gathering.take_kept()) left(run);
    for (std::int64_t t = 0; t < shape.transports; ++t) {
      EXPECT_EQ(left.times(t), all_in(complete, plan.send_run(t)) ? 1 : 0);
    }
    for (std::int64_t p = 0; p < shape.partitions; ++p) {
      EXPECT_EQ(add(gathering, p, [&](Range run) { left(run); }), !complete[static_cast<std::size_t>(p)]);
    }
    for (std::int64_t t = 0; t < shape.transports; ++t) EXPECT_EQ(left.times(t), 1);
  }
}

TEST(Gathering, threads_and_looks_at_what_waits_let_each_leave_once_with_all_its_bytes) {
  constexpr int threads = 3;
  for (const Shape shape : {Shape{64, 64, 2}, Shape{200, 200, 3}, Shape{300, 100, 1}}) {
    const Plan plan(shape.partitions, 1, shape.transports, shape.partitions * 8);
    Gathering gathering(shape.partitions);
    gathering.connect(plan, shape.transfers);
    std::vector<int> bytes(static_cast<std::size_t>(shape.partitions));
    std::vector<std::atomic<int>> left(static_cast<std::size_t>(shape.transports));
    std::atomic<int> wrong{0};
    for (int epoch = 1; epoch <= 50; ++epoch) {
      gathering.begin(true, 2);
      const auto leave = [&](Range run) {
        for (std::int64_t t = run.begin; t < run.end; ++t) {
          if (left[static_cast<std::size_t>(t)].fetch_add(1) != epoch - 1) ++wrong;
          const Range partitions = plan.send_run(t);
          for (std::int64_t p = partitions.begin; p < partitions.end; ++p) {
            wrong += bytes[static_cast<std::size_t>(p)] != epoch;
          }
        }
      };
      std::atomic<bool> done{false};
      std::thread looker([&] {
        while (!done) gathering.leave_held(leave);
      });
      std::vector<std::thread> workers;
      for (int thread = 0; thread < threads; ++thread) {
        workers.emplace_back([&, thread] {
          for (std::int32_t p = thread; p < shape.partitions; p += threads) {
            bytes[static_cast<std::size_t>(p)] = epoch;
            add(gathering, p, leave);
          }
        });
      }
      for (std::thread& worker : workers) worker.join();
      done = true;
      looker.join();
      for (const auto& times : left) ASSERT_EQ(times, epoch);
    }
    ASSERT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace partita
