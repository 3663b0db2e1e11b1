#include "link/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/random.hpp"

namespace partita::link {
namespace {

constexpr int largest_count = 24;
__extension__ using Int128 = __int128;
constexpr std::int64_t int_max = INT32_MAX;

std::string name(const Plan& plan) {
  return std::to_string(plan.send_partitions()) + " send, " + std::to_string(plan.recv_partitions()) + " receive, " +
         std::to_string(plan.transport_partitions()) + " transport partitions of " +
         std::to_string(plan.total_bytes()) + " bytes";
}

template <class Check>
void for_all_small_plans(std::int64_t bytes_per_unit, const Check& check) {
  for (int send = 1; send <= largest_count; ++send) {
    for (int recv = 1; recv <= largest_count; ++recv) {
      const std::int64_t total = std::lcm<std::int64_t>(send, recv) * bytes_per_unit;
      for (int transport = 1; transport <= send; ++transport) check(Plan(send, recv, transport, total));
    }
  }
}

/// The transport partition that carries each packed byte, from bytes() alone.
std::vector<int> carrier_of_each_byte(const Plan& plan) {
  std::vector<int> carrier(static_cast<std::size_t>(plan.total_bytes()), -1);
  for (int t = 0; t < plan.transport_partitions(); ++t) {
    const Range range = plan.bytes(t);
    for (std::int64_t byte = range.begin; byte < range.end; ++byte) carrier[static_cast<std::size_t>(byte)] = t;
  }
  return carrier;
}

TEST(Plan, transport_partitions_cover_the_send_partitions_once_and_in_order) {
  for_all_small_plans(3, [](const Plan& plan) {
    std::int64_t expected_begin = 0;
    for (int t = 0; t < plan.transport_partitions(); ++t) {
      const Range run = plan.send_run(t);
      ASSERT_EQ(run.begin, expected_begin) << name(plan) << ", transport " << t;
      ASSERT_GT(run.size(), 0) << name(plan) << ", transport " << t;
      for (std::int64_t s = run.begin; s < run.end; ++s) ASSERT_EQ(plan.transport_of_send(s), t) << name(plan);
      expected_begin = run.end;
    }
    ASSERT_EQ(expected_begin, plan.send_partitions()) << name(plan);
  });
}

TEST(Plan, transport_partitions_differ_by_one_send_partition_at_most) {
  for_all_small_plans(1, [](const Plan& plan) {
    std::int64_t least = int_max;
    std::int64_t most = 0;
    for (int t = 0; t < plan.transport_partitions(); ++t) {
      least = std::min(least, plan.send_run(t).size());
      most = std::max(most, plan.send_run(t).size());
    }
    ASSERT_LE(most - least, 1) << name(plan);
  });
}

TEST(Plan, every_byte_travels_once_and_with_its_send_partition) {
  for_all_small_plans(2, [](const Plan& plan) {
    const auto carrier = carrier_of_each_byte(plan);
    for (std::size_t byte = 0; byte < carrier.size(); ++byte) {
      const auto send_partition = static_cast<std::int64_t>(byte) / plan.send().partition_bytes();
      ASSERT_EQ(carrier[byte], plan.transport_of_send(send_partition)) << name(plan) << ", byte " << byte;
    }
  });
}

TEST(Plan, a_receive_partition_waits_for_exactly_the_transports_that_carry_its_bytes) {
  for_all_small_plans(1, [](const Plan& plan) {
    const auto carrier = carrier_of_each_byte(plan);
    for (int r = 0; r < plan.recv_partitions(); ++r) {
      const std::int64_t first = r * plan.recv().partition_bytes();
      std::set<int> carriers;
      for (std::int64_t byte = first; byte < first + plan.recv().partition_bytes(); ++byte) {
        carriers.insert(carrier[static_cast<std::size_t>(byte)]);
      }
      const Range expected{*carriers.begin(), *carriers.rbegin() + std::int64_t{1}};
      ASSERT_EQ(plan.transports_of_recv(r), expected) << name(plan) << ", receive partition " << r;
    }
  });
}

TEST(Plan, zero_bytes_keep_the_partitions_and_their_overlaps) {
  for_all_small_plans(1, [](const Plan& plan) {
    const Plan empty(plan.send_partitions(), plan.recv_partitions(), plan.transport_partitions(), 0);
    for (int t = 0; t < plan.transport_partitions(); ++t) {
      ASSERT_EQ(empty.send_run(t), plan.send_run(t)) << name(empty);
      ASSERT_EQ(empty.bytes(t), (Range{0, 0})) << name(empty);
    }
    for (int r = 0; r < plan.recv_partitions(); ++r) {
      ASSERT_EQ(empty.transports_of_recv(r), plan.transports_of_recv(r)) << name(empty);
    }
  });
}

TEST(Plan, the_largest_counts_do_not_overflow) {
  struct Counts {
    std::int64_t send, recv, transport, total;
  };
  const std::int64_t huge_total = int_max * (int_max - 1);
  for (const auto& c :
       {Counts{int_max, int_max - 1, int_max, huge_total}, Counts{int_max, int_max - 1, 1000, huge_total},
        Counts{int_max - 1, int_max, int_max - 1, huge_total}, Counts{1, int_max, 1, huge_total},
        Counts{int_max, 1, int_max, huge_total}, Counts{int_max, int_max, 77, int_max * int_max}}) {
    const Plan plan(static_cast<std::int32_t>(c.send), static_cast<std::int32_t>(c.recv),
                    static_cast<std::int32_t>(c.transport), c.total);
    EXPECT_EQ(plan.send_run(0).begin, 0) << name(plan);
    EXPECT_EQ(plan.send_run(c.transport - 1).end, c.send) << name(plan);
    EXPECT_EQ(plan.bytes(c.transport - 1).end, c.total) << name(plan);
    for (const std::int64_t s : {std::int64_t{0}, c.send / 3, c.send / 2, c.send - 1}) {
      const Range run = plan.send_run(plan.transport_of_send(s));
      EXPECT_LE(run.begin, s) << name(plan);
      EXPECT_GT(run.end, s) << name(plan);
    }
    for (const std::int64_t r : {std::int64_t{0}, c.recv / 3, c.recv / 2, c.recv - 1}) {
      const Range carriers = plan.transports_of_recv(r);
      // Exact in 128 bits: the receive partition's first and last byte lie in the first and last carrier.
      const auto first = static_cast<std::int64_t>(static_cast<Int128>(r) * c.total / c.recv);
      const auto last = static_cast<std::int64_t>(static_cast<Int128>(r + 1) * c.total / c.recv) - 1;
      EXPECT_LE(plan.bytes(carriers.begin).begin, first) << name(plan);
      EXPECT_GT(plan.bytes(carriers.begin).end, first) << name(plan);
      EXPECT_LE(plan.bytes(carriers.end - 1).begin, last) << name(plan);
      EXPECT_GT(plan.bytes(carriers.end - 1).end, last) << name(plan);
    }
  }
}

/// Kernels know plans of even sides only.
TEST(Plan, kernels_and_hosts_agree) {
  for_all_small_plans(3, [](const Plan& plan) {
    const device::Plan kernels(plan.send_partitions(), plan.recv_partitions(), plan.transport_partitions(),
                               plan.total_bytes());
    for (int t = 0; t < plan.transport_partitions(); ++t) ASSERT_EQ(kernels.bytes(t), plan.bytes(t)) << name(plan);
    ASSERT_EQ(kernels.send_partition_bytes(), plan.send().partition_bytes()) << name(plan);
    ASSERT_EQ(kernels.recv_partition_bytes(), plan.recv().partition_bytes()) << name(plan);
  });
}

// ---- Sides whose partitions differ in size ----

using test::Random;
using test::random_parts;
using Sizes = std::vector<std::int64_t>;

std::string listed(const Sizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "{" + text + "}";
}

std::int64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

/// The partition in which each byte lies, counted out.
std::vector<std::int64_t> owner_of_each_byte(const Sizes& sizes) {
  std::vector<std::int64_t> owner;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    owner.insert(owner.end(), static_cast<std::size_t>(sizes[p]), static_cast<std::int64_t>(p));
  }
  return owner;
}

/// All that a plan says, against bytes that are counted one by one.
void expect_as_counted(const Sizes& send, const Sizes& recv, std::int32_t transports) {
  SCOPED_TRACE("send " + listed(send) + ", receive " + listed(recv) + ", " + std::to_string(transports) +
               " transport partitions");
  const Plan plan(Partitioning(send), Partitioning(recv), transports);
  ASSERT_EQ(plan.total_bytes(), sum(send));
  const auto senders = owner_of_each_byte(send);
  const auto receivers = owner_of_each_byte(recv);
  const auto carrier = carrier_of_each_byte(plan);
  std::vector<std::set<std::int64_t>> carriers(recv.size());
  for (std::size_t byte = 0; byte < carrier.size(); ++byte) {
    ASSERT_EQ(carrier[byte], plan.transport_of_send(senders[byte])) << "byte " << byte;
    carriers[static_cast<std::size_t>(receivers[byte])].insert(carrier[byte]);
  }
  std::int64_t next_send = 0;
  std::int64_t next_byte = 0;
  for (std::int64_t t = 0; t < transports; ++t) {
    ASSERT_EQ(plan.send_run(t).begin, next_send);
    ASSERT_EQ(plan.bytes(t).begin, next_byte);
    next_send = plan.send_run(t).end;
    next_byte = plan.bytes(t).end;
  }
  ASSERT_EQ(next_send, plan.send_partitions());
  ASSERT_EQ(next_byte, plan.total_bytes());
  if (plan.send().even() && plan.recv().even()) return;  // then partitions of no bytes have a place
  for (std::size_t r = 0; r < recv.size(); ++r) {
    const Range expected = carriers[r].empty() ? Range{} : Range{*carriers[r].begin(), *carriers[r].rbegin() + 1};
    ASSERT_EQ(plan.transports_of_recv(static_cast<std::int64_t>(r)), expected) << "receive partition " << r;
  }
}

TEST(UnevenPlan, says_what_counting_bytes_says) {
  Random random(20261201);
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t send = random.between(1, 12);
    const std::int64_t total_bytes = random.between(0, round % 3 == 0 ? 4 : 200);
    expect_as_counted(random_parts(random, send, total_bytes), random_parts(random, random.between(1, 12), total_bytes),
                      static_cast<std::int32_t>(random.between(1, send)));
    if (HasFailure()) return;
  }
}

TEST(UnevenPlan, one_side_may_be_even_or_a_single_partition) {
  Random random(20261202);
  for (int round = 0; round < 1000; ++round) {
    const std::int64_t count = random.between(1, 9);
    const std::int64_t even_count = random.between(1, 9);
    const Sizes even(static_cast<std::size_t>(even_count), random.between(0, 20));
    const Sizes uneven = random_parts(random, count, sum(even));
    expect_as_counted(uneven, even, static_cast<std::int32_t>(count));
    expect_as_counted(even, uneven, static_cast<std::int32_t>(random.between(1, even_count)));
    expect_as_counted(uneven, {sum(even)}, static_cast<std::int32_t>(random.between(1, count)));
    expect_as_counted({sum(even)}, uneven, 1);
    if (HasFailure()) return;
  }
}

TEST(UnevenPlan, bytes_may_all_lie_in_one_partition) {
  for (std::size_t full = 0; full < 5; ++full) {
    Sizes sizes(5, 0);
    sizes[full] = 70;
    for (std::int32_t transports = 1; transports <= 5; ++transports) {
      expect_as_counted(sizes, {0, 70}, transports);
      expect_as_counted(sizes, {7, 63}, transports);
      expect_as_counted(sizes, {70, 0, 0}, transports);
    }
  }
}

TEST(UnevenPlan, sizes_that_are_all_the_same_are_even) {
  const Plan listed_plan(Partitioning(Sizes{6, 6, 6, 6}), Partitioning(Sizes{12, 12}), 3);
  EXPECT_TRUE(listed_plan.send().even());
  EXPECT_EQ(listed_plan.recv().partition_bytes(), 12);
  EXPECT_EQ(listed_plan, Plan(4, 2, 3, 24));
  EXPECT_NE(listed_plan, Plan(Partitioning(Sizes{6, 6, 5, 7}), Partitioning(2, 24), 3));
  EXPECT_TRUE(Partitioning(Sizes{0, 0, 0}).even());
}

TEST(UnevenPlan, the_largest_sizes_do_not_overflow) {
  const std::int64_t most = INT64_MAX;
  const Plan plan(Partitioning(Sizes{most - 5, 0, 5}), Partitioning(Sizes{1, most - 1}), 3);
  EXPECT_EQ(plan.bytes(2), (Range{most - 5, most}));
  EXPECT_EQ(plan.transports_of_recv(0), (Range{0, 1}));
  EXPECT_EQ(plan.transports_of_recv(1), (Range{0, 3}));
}

TEST(UnevenPlan, sizes_that_cannot_be_are_refused) {
  EXPECT_THROW(Partitioning(Sizes{}), Error);
  EXPECT_THROW(Partitioning(Sizes{4, -1}), Error);
  EXPECT_THROW(Partitioning(Sizes{INT64_MAX, 1}), Error);
}

}  // namespace
}  // namespace partita::link
