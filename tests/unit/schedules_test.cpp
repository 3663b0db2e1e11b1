// Every algorithm for every collective that it serves, on all ranks at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/algorithms.hpp"
#include "collective/walk.hpp"
#include "core/error.hpp"
#include "support/collective_case.hpp"
#include "support/collective_result.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "support/schedule_simulator.hpp"

namespace partita::collective {

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << "kind " << static_cast<int>(kind);
}

namespace {

using test::Case;
using test::Contents;
using test::Random;
using test::Shape;
using test::Simulator;

std::vector<Schedule> schedules_of(const Algorithm& algorithm, const std::vector<Problem>& problems) {
  std::vector<Schedule> schedules;
  for (const Problem& problem : problems) schedules.push_back(algorithm.write(problem));
  return schedules;
}

bool serves(const Algorithm& algorithm, const Case& made) {
  const auto count = std::ranges::count_if(made.problems, algorithm.serves);
  // All ranks choose alike.
  EXPECT_TRUE(count == 0 || count == std::ssize(made.problems)) << algorithm.name;
  return count > 0;
}

/// What is wrong with an algorithm's way to do a case of this shape, or nothing.
std::string try_out(const Algorithm& algorithm, const Shape& shape, const Case& made, Random& random) {
  const std::vector<Schedule> schedules = schedules_of(algorithm, made.problems);
  const std::string fault = test::fault_of_all(made.problems, schedules);
  if (!fault.empty()) return fault;
  const int partitions = shape.size > 12 ? 1 : random.integer(1, 3);  // many ranks have enough to do
  const int epochs = random.one_in(4) ? 2 : 1;
  Simulator simulator(made.problems, schedules, partitions, random);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Contents contents = test::contents_of(shape, epoch);
    const std::string stuck = simulator.run(contents);
    if (!stuck.empty()) return stuck;
    const std::string wrong = test::wrong_result(made, simulator, partitions, contents);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

struct CollectiveAlgorithm {
  const Algorithm* algorithm;
  Kind kind;
};

std::vector<CollectiveAlgorithm> pairs() {
  std::vector<CollectiveAlgorithm> all;
  for (const Algorithm* algorithm : algorithms()) {
    for (int kind = 0; kind < kind_count; ++kind) {
      if (algorithm->kinds.contain(static_cast<Kind>(kind))) all.push_back({algorithm, static_cast<Kind>(kind)});
    }
  }
  return all;
}

std::string pair_name(const testing::TestParamInfo<CollectiveAlgorithm>& info) {
  return std::string(info.param.algorithm->name) + "_" + name_of(info.param.kind);
}

/// Every root of few ranks, and of many the first, the last and one between.
std::vector<int> roots(Kind kind, int size, Random& random) {
  if (!test::has_root(kind)) return {0};
  if (size > 9) return {0, random.integer(1, size - 2), size - 1};
  std::vector<int> all;
  for (int root = 0; root < size; ++root) all.push_back(root);
  return all;
}

/// The number of ranks to try after `size`: each up to 33; under a sanitizer, which looks at lines of code and not at
/// combinations, each up to 9 and every fourth of the others, and of threads, of which there is one, fewer.
int next_size(int size) {
  if (test::thread_sanitized && size >= 5) return size + 9;
  return test::sanitized && size >= 9 ? size + 4 : size + 1;
}

class SchedulesOf : public testing::TestWithParam<CollectiveAlgorithm> {};

TEST_P(SchedulesOf, do_their_collective_on_any_number_of_ranks_without_a_race) {
  const auto& [algorithm, kind] = GetParam();
  Random random(20260301, static_cast<std::uint64_t>(kind));
  int tried = 0;
  for (int size = 1; size <= 33; size = next_size(size)) {
    for (const int root : roots(kind, size, random)) {
      for (const bool in_place : {false, true}) {
        if (in_place && !test::has_in_place(kind)) continue;
        for (const bool commutative : {false, true}) {
          if (commutative && !test::is_reduction(kind)) continue;
          const Shape shape = {kind, size, root, in_place, commutative, commutative ? random.between(1, 3) : 2};
          const Case made = test::make_case(shape, random);
          if (!serves(*algorithm, made)) continue;
          ++tried;
          ASSERT_EQ(try_out(*algorithm, shape, made, random), "")
              << size << " ranks, root " << root << (in_place ? ", in place" : "")
              << (commutative ? ", commutative" : "");
        }
      }
    }
  }
  EXPECT_GT(tried, 0);
}

/// The sends and receives of a schedule, in their order, with their peers.
std::vector<std::pair<Deed, int>> meetings_of(const Schedule& schedule) {
  std::vector<std::pair<Deed, int>> meetings;
  for (const Action& action : schedule.actions) {
    if (action.has_peer()) meetings.emplace_back(action.deed, action.peer);
  }
  return meetings;
}

/// So whatever a rank knows of sizes, what it sends later meets what it should.
TEST_P(SchedulesOf, have_the_same_sends_and_receives_whatever_the_sizes) {
  const auto& [algorithm, kind] = GetParam();
  Random random(20260304, static_cast<std::uint64_t>(kind));
  for (const int size : {2, 3, 4, 7, 8}) {
    for (const bool in_place : {false, true}) {
      if (in_place && !test::has_in_place(kind)) continue;
      const Case made = test::make_case({.kind = kind, .size = size, .root = 1, .in_place = in_place}, random);
      if (!serves(*algorithm, made)) continue;
      for (const Problem& problem : made.problems) {
        Problem empty = problem;
        Problem full = problem;
        for (auto blocks : {&Problem::sent, &Problem::received, &Problem::scattered}) {
          std::ranges::fill(empty.*blocks, 0);
          std::ranges::fill(full.*blocks, 64);
        }
        ASSERT_EQ(meetings_of(algorithm->write(empty)), meetings_of(algorithm->write(full)))
            << size << " ranks, rank " << problem.rank;
      }
    }
  }
}

/// Whether the schedule of a barrier is over on some rank though `absent` has not begun. Two ranks of it meet once.
bool some_are_over_without(int absent, const std::vector<Schedule>& schedules) {
  std::vector<Walk> walks(schedules.begin(), schedules.end());
  std::set<std::pair<int, int>> sent;  // from, to
  for (int rank = 0; rank < std::ssize(walks); ++rank) {
    if (rank != absent) walks[static_cast<std::size_t>(rank)].restart(1);
  }
  for (bool moved = true; std::exchange(moved, false);) {
    for (int rank = 0; rank < std::ssize(walks); ++rank) {
      if (rank == absent) continue;
      Walk& walk = walks[static_cast<std::size_t>(rank)];
      const auto& actions = schedules[static_cast<std::size_t>(rank)].actions;
      for (int place = 0; place < std::ssize(actions); ++place) {
        const Action& action = actions[static_cast<std::size_t>(place)];
        if (walk.possible(place) == 0) continue;
        if (action.deed == Deed::receive && !sent.contains({action.peer, rank})) continue;
        if (action.deed == Deed::send) sent.emplace(rank, action.peer);
        walk.begin(place, 1);
        walk.end(place, 1);
        moved = true;
      }
      if (walk.over() != 0) return true;
    }
  }
  return false;
}

TEST(Schedules, of_a_barrier_end_nowhere_before_all_have_begun) {
  for (int size = 2; size <= 33; ++size) {
    std::vector<Problem> problems;
    for (int rank = 0; rank < size; ++rank) problems.push_back({.kind = Kind::barrier, .rank = rank, .size = size});
    const std::vector<Schedule> schedules = schedules_of(choose(problems[0]), problems);
    for (int absent = 0; absent < size; ++absent) {
      ASSERT_FALSE(some_are_over_without(absent, schedules)) << size << " ranks without rank " << absent;
    }
  }
}

/// Commutes as the addition of floating-point numbers does, and is no more associative.
void add_rounded(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>((from[i] + to[i]) * 5 / 4);
}

TEST(Schedules, give_all_ranks_of_an_allreduce_the_same_bits) {
  Random random(20260302);
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->kinds.contain(Kind::allreduce)) continue;
    for (int size = 2; size <= 33; size = next_size(size)) {
      const Shape shape = {.kind = Kind::allreduce, .size = size};
      const Case made = test::make_case(shape, random);
      const std::vector<Schedule> schedules = schedules_of(*algorithm, made.problems);
      Simulator simulator(made.problems, schedules, 1, random);
      Contents contents = test::contents_of(shape, 0);
      contents.reduce = add_rounded;
      ASSERT_EQ(simulator.run(contents), "");
      for (int rank = 1; rank < size; ++rank) {
        ASSERT_EQ(simulator.received(rank, 0, 0), simulator.received(0, 0, 0)) << algorithm->name << ", rank " << rank;
      }
    }
  }
}

/// The sends that a rank begins though it never marks, when all that it receives has come.
int sends_without_a_mark(const Schedule& schedule) {
  Walk walk(schedule);
  walk.restart(1);
  int sends = 0;
  for (int place = 0; place < std::ssize(schedule.actions); ++place) {
    const Deed deed = schedule.actions[static_cast<std::size_t>(place)].deed;
    if (deed == Deed::mark || walk.possible(place) == 0) continue;
    if (deed == Deed::send) ++sends;
    walk.begin(place, 1);
    walk.end(place, 1);
  }
  EXPECT_EQ(walk.over(), 0U);
  return sends;
}

TEST(Schedules, pass_on_the_blocks_of_others_around_a_ring_before_the_own_mark) {
  for (const int size : {2, 3, 8}) {
    for (const bool in_place : {false, true}) {
      Problem problem{.kind = Kind::allgather, .rank = 1, .size = size, .sent = {8}, .in_place = in_place};
      problem.received.assign(static_cast<std::size_t>(size), 8);
      EXPECT_EQ(sends_without_a_mark(choose(problem, "ring").write(problem)), size - 2);
    }
  }
}

TEST(Schedules, of_one_collective_have_a_name_each) {
  std::set<std::pair<Kind, std::string_view>> names;
  for (const auto& [algorithm, kind] : pairs()) {
    EXPECT_TRUE(names.emplace(kind, algorithm->name).second) << algorithm->name;
    EXPECT_NE(algorithm->name, "auto");
  }
}

TEST(Schedules, serve_each_collective_whatever_the_ranks_and_the_operation) {
  Random random(20260303);
  for (int kind = 0; kind < kind_count; ++kind) {
    for (const int size : {1, 2, 3, 8, 9}) {
      const Shape shape = {.kind = static_cast<Kind>(kind), .size = size, .commutative = false, .unit_bytes = 2};
      const Case made = test::make_case(shape, random);
      EXPECT_NO_THROW(choose(made.problems[0])) << kind << ", " << size << " ranks";
    }
  }
}

TEST(Schedules, are_chosen_by_name_or_by_the_built_in_tuning) {
  Random random(1);
  const Problem problem = test::make_case({.kind = Kind::bcast, .size = 3}, random).problems[0];
  EXPECT_EQ(choose(problem, "binomial").name, "binomial");
  EXPECT_EQ(choose(problem, "chain").name, "chain");
  EXPECT_EQ(choose(problem).name, "binomial");
  try {
    choose(problem, "bruck");
    ADD_FAILURE() << "an algorithm of another collective was chosen";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::info_value);
    EXPECT_NE(std::string(error.what())
                  .find("is \"bruck\"; expected is auto or, for this collective and its arguments, one of: binomial"),
              std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, SchedulesOf, testing::ValuesIn(pairs()), pair_name);

}  // namespace
}  // namespace partita::collective
