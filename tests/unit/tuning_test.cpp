// Which algorithm is taken by a table of rules: by the built-in one as well.
#include "collective/tuning.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collective/algorithms.hpp"
#include "collective/kernel_algorithms.hpp"
#include "support/collective_case.hpp"
#include "support/random.hpp"

namespace partita::collective {
namespace {

Rule rule(int ranks, std::int64_t from_bytes, const char* algorithm) {
  return {Kind::allreduce, MovedBy::host, ranks, from_bytes, algorithm};
}
std::string found(const Tuning& tuning, int ranks, std::int64_t bytes) {
  const Rule* rule = tuning.find({Kind::allreduce, MovedBy::host, ranks, bytes});
  return rule == nullptr ? "" : rule->algorithm;
}

TEST(Tuning, takes_the_rule_with_the_most_bytes_that_are_reached) {
  const Tuning tuning({rule(4, 1000, "ring"), rule(4, 0, "recursive_doubling"), rule(4, 9000, "recursive_halving")});
  EXPECT_EQ(found(tuning, 4, 0), "recursive_doubling");
  EXPECT_EQ(found(tuning, 4, 999), "recursive_doubling");
  EXPECT_EQ(found(tuning, 4, 1000), "ring");
  EXPECT_EQ(found(tuning, 4, 8999), "ring");
  EXPECT_EQ(found(tuning, 4, std::int64_t{1} << 40), "recursive_halving");
}

TEST(Tuning, prefers_rules_for_this_number_of_ranks_to_those_for_any) {
  const Tuning tuning({rule(any_ranks, 0, "ring"), rule(3, 100, "recursive_halving")});
  EXPECT_EQ(found(tuning, 3, 100), "recursive_halving");
  EXPECT_EQ(found(tuning, 3, 99), "ring") << "no rule for three ranks reaches down to here";
  EXPECT_EQ(found(tuning, 4, 100), "ring");
}

TEST(Tuning, has_nothing_for_what_no_rule_is_about) {
  const Tuning tuning({rule(4, 8, "ring")});
  EXPECT_EQ(found(tuning, 4, 7), "");
  EXPECT_EQ(found(tuning, 5, 8), "");
  EXPECT_EQ(tuning.find({Kind::allreduce, MovedBy::device, 4, 8}), nullptr);
  EXPECT_EQ(tuning.find({Kind::bcast, MovedBy::host, 4, 8}), nullptr);
}

TEST(RulesInForce, are_those_of_a_file_where_they_reach_and_else_the_built_in_ones) {
  const Tuning none;
  const auto by_host = [](const Tuning& tuning, int ranks) {
    return rules_in_force(Kind::allreduce, MovedBy::host, ranks, tuning);
  };
  EXPECT_EQ(by_host(none, 4), (std::vector<RuleInForce>{{0, "recursive_doubling", true}}));
  const Tuning tuning({rule(4, 1000, "ring"), rule(any_ranks, 50, "recursive_halving"), rule(3, 0, "ring"),
                       rule(3, 64, "ring"), rule(3, 128, "recursive_doubling")});
  EXPECT_EQ(by_host(tuning, 4),
            (std::vector<RuleInForce>{
                {0, "recursive_doubling", true}, {50, "recursive_halving", false}, {1000, "ring", false}}));
  EXPECT_EQ(by_host(tuning, 3), (std::vector<RuleInForce>{{0, "ring", false}, {128, "recursive_doubling", false}}))
      << "a rule of the same name goes on";
  EXPECT_EQ(by_host(tuning, 100),
            (std::vector<RuleInForce>{{0, "recursive_doubling", true}, {50, "recursive_halving", false}}));
}

TEST(RulesInForce, of_kernels_are_there_for_what_they_move_among_so_few_ranks) {
  const Tuning none;
  const auto of_kernels = rules_in_force(Kind::allreduce, MovedBy::device, 4, none);
  ASSERT_EQ(of_kernels.size(), 3U);
  EXPECT_EQ(of_kernels[0], (RuleInForce{0, "packets", true}));
  EXPECT_EQ(of_kernels[1].algorithm, "two-shot");
  EXPECT_EQ(of_kernels[2].algorithm, "buffers");
  EXPECT_EQ(rules_in_force(Kind::allreduce, MovedBy::device, 1, none).size(), 1U);
  EXPECT_TRUE(rules_in_force(Kind::allreduce, MovedBy::device, 9, none).empty()) << "kernels serve up to 8 ranks";
  EXPECT_TRUE(rules_in_force(Kind::scan, MovedBy::device, 4, none).empty()) << "no kernel moves it";
}

TEST(BuiltInTuning, has_no_rule_twice) {
  std::set<std::tuple<Kind, MovedBy, int, std::int64_t>> seen;
  for (const Rule& each : built_in_tuning().rules()) {
    EXPECT_TRUE(seen.emplace(each.kind, each.by, each.ranks, each.from_bytes).second)
        << name_of(each.kind) << ", " << each.ranks << " ranks, " << each.from_bytes;
  }
}

TEST(BuiltInTuning, moves_small_blocks_of_kernels_in_packets_and_large_ones_in_buffers) {
  const auto chosen = [](Kind kind, int ranks, std::int64_t bytes) {
    return choose_kernel_algorithm({.kind = kind, .size = ranks}, bytes, "auto").name;
  };
  constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB;
  for (const Kind kind : {Kind::allreduce, Kind::bcast, Kind::allgather, Kind::alltoall, Kind::reduce_scatter,
                          Kind::reduce_scatter_block}) {
    for (const int ranks : {2, 3, 4, 8}) {
      EXPECT_EQ(chosen(kind, ranks, 16), "packets") << ranks;
      EXPECT_EQ(chosen(kind, ranks, 2 * MiB), "buffers") << ranks;
    }
    EXPECT_EQ(chosen(kind, 1, 1024 * MiB), "packets") << "there is nobody to share with";
  }
  EXPECT_EQ(chosen(Kind::bcast, 2, 465 * KiB - 1), "packets");
  EXPECT_EQ(chosen(Kind::bcast, 2, 465 * KiB), "buffers");
  // As measured on four GPUs.
  EXPECT_EQ(chosen(Kind::bcast, 4, 128 * KiB), "packets");
  EXPECT_EQ(chosen(Kind::bcast, 4, 160 * KiB), "buffers");
  EXPECT_EQ(chosen(Kind::allgather, 4, 96 * KiB), "packets");
  EXPECT_EQ(chosen(Kind::allgather, 4, 128 * KiB), "buffers");
  for (const Kind kind : {Kind::reduce_scatter, Kind::reduce_scatter_block}) {
    EXPECT_EQ(chosen(kind, 4, 256 * KiB), "packets");
    EXPECT_EQ(chosen(kind, 4, 272 * KiB), "buffers");
  }
  EXPECT_EQ(chosen(Kind::alltoall, 4, 256 * KiB), "packets");
  EXPECT_EQ(chosen(Kind::alltoall, 4, 320 * KiB), "buffers");
  EXPECT_EQ(choose_kernel_algorithm({.kind = Kind::bcast, .size = 2}, 0, "buffers").name, "packets");
}

TEST(BuiltInTuning, reduces_what_lies_between_in_two_shots_where_these_spare_bytes) {
  const auto chosen = [](int ranks, std::int64_t bytes) {
    return choose_kernel_algorithm({.kind = Kind::allreduce, .size = ranks}, bytes, "auto").name;
  };
  constexpr std::int64_t KiB = 1024;
  EXPECT_EQ(chosen(2, 256 * KiB), "packets") << "between two ranks both send the same";
  EXPECT_EQ(chosen(2, 360 * KiB), "buffers");
  EXPECT_EQ(chosen(4, 64 * KiB - 1), "packets");
  EXPECT_EQ(chosen(4, 64 * KiB), "two-shot");
  EXPECT_EQ(chosen(4, 256 * KiB - 1), "two-shot");
  EXPECT_EQ(chosen(4, 256 * KiB), "buffers");
  EXPECT_EQ(chosen(8, 32 * KiB), "two-shot");
}

/// Or ranks would choose differently.
TEST(TunedBytes, are_the_same_on_all_ranks) {
  test::Random random(20260811);
  for (int kind = 0; kind < kind_count; ++kind) {
    for (const int size : {1, 2, 3, 8}) {
      for (const bool in_place : {false, true}) {
        if (in_place && !test::has_in_place(static_cast<Kind>(kind))) continue;
        const test::Shape shape = {
            .kind = static_cast<Kind>(kind), .size = size, .root = size / 2, .in_place = in_place, .unit_bytes = 2};
        const test::Case made = test::make_case(shape, random);
        for (const Problem& problem : made.problems) {
          EXPECT_EQ(tuned_bytes(problem), tuned_bytes(made.problems[0]))
              << name_of(problem.kind) << ", rank " << problem.rank << " of " << size << ", in place " << in_place;
        }
      }
    }
  }
}

TEST(TunedBytes, are_those_of_a_block) {
  EXPECT_EQ(tuned_bytes({.kind = Kind::bcast, .size = 2, .sent = {40}}), 40);
  EXPECT_EQ(tuned_bytes({.kind = Kind::bcast, .rank = 1, .size = 2, .received = {40}}), 40);
  EXPECT_EQ(tuned_bytes({.kind = Kind::scatter, .size = 2, .sent = {16, 16}}), 16);
  EXPECT_EQ(tuned_bytes({.kind = Kind::allgather, .size = 2, .sent = {24}, .received = {24, 24}}), 24);
  EXPECT_EQ(tuned_bytes({.kind = Kind::allgatherv, .size = 2, .sent = {8}, .received = {8, 40}}), 24);
  EXPECT_EQ(tuned_bytes({.kind = Kind::reduce_scatter, .size = 2, .sent = {8, 24}, .scattered = {8, 24}}), 16);
  EXPECT_EQ(tuned_bytes({.kind = Kind::alltoallv, .size = 2, .sent = {8, 24}, .received = {8, 8}}), 0)
      << "one rank alone knows them";
}

}  // namespace
}  // namespace partita::collective
