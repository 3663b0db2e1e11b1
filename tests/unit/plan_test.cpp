#include "link/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace partita::link {
namespace {

constexpr int largest_count = 40;
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
      const auto send_partition = static_cast<std::int64_t>(byte) / plan.send_partition_bytes();
      ASSERT_EQ(carrier[byte], plan.transport_of_send(send_partition)) << name(plan) << ", byte " << byte;
    }
  });
}

TEST(Plan, a_receive_partition_waits_for_exactly_the_transports_that_carry_its_bytes) {
  for_all_small_plans(1, [](const Plan& plan) {
    const auto carrier = carrier_of_each_byte(plan);
    for (int r = 0; r < plan.recv_partitions(); ++r) {
      const std::int64_t first = r * plan.recv_partition_bytes();
      std::set<int> carriers;
      for (std::int64_t byte = first; byte < first + plan.recv_partition_bytes(); ++byte) {
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

}  // namespace
}  // namespace partita::link
