// Partitions that walk a schedule side by side.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "collective/walk.hpp"

namespace partita::collective {
namespace {

constexpr int receive = 0, marked = 1, reduce = 2, send = 3;

/// What comes is reduced with the own data, and sent on.
Schedule pass_on() {
  Writer writer;
  const Region slot = writer.slot(8);
  const Region own{Buffer::sent, 0, 0, 8};
  EXPECT_EQ(writer.receive(1, slot), receive);
  EXPECT_EQ(writer.mark(), marked);
  EXPECT_EQ(writer.reduce(own, slot, {receive, marked}), reduce);
  EXPECT_EQ(writer.send(2, slot, {reduce}), send);
  EXPECT_EQ(writer.send(3, own.part(0, 0), {marked}), Writer::nothing);
  return std::move(writer).finished();
}

void run(Walk& walk, int action, Bits partitions) {
  walk.begin(action, partitions);
  walk.end(action, partitions);
}

TEST(Walk, goes_on_in_each_partition_without_its_neighbours) {
  const Schedule schedule = pass_on();
  Walk walk(schedule);
  walk.restart(0b111);
  EXPECT_EQ(walk.possible(receive), 0b111U);
  EXPECT_EQ(walk.possible(marked), 0b111U);
  EXPECT_EQ(walk.possible(reduce), 0U);
  run(walk, receive, 0b110);
  run(walk, marked, 0b011);
  EXPECT_EQ(walk.possible(receive), 0b001U);
  EXPECT_EQ(walk.possible(reduce), 0b010U);
  run(walk, reduce, 0b010);
  run(walk, send, walk.possible(send));
  EXPECT_EQ(walk.over(), 0b010U);
  EXPECT_FALSE(walk.has_begun(receive));
  run(walk, receive, 0b001);
  EXPECT_TRUE(walk.has_begun(receive));
  run(walk, marked, 0b100);
  EXPECT_EQ(walk.possible(reduce), 0b101U) << "those that are late go together";
  run(walk, reduce, 0b101);
  run(walk, send, walk.possible(send));
  EXPECT_EQ(walk.over(), 0b111U);
}

TEST(Walk, lets_a_stream_go_on_behind_what_has_not_ended) {
  const Schedule schedule = pass_on();
  Walk walk(schedule);
  walk.restart(1);
  walk.begin(receive, 1);
  run(walk, marked, 1);
  EXPECT_EQ(walk.possible(reduce), 0U);
  EXPECT_EQ(walk.possible_behind(reduce), 1U);
  walk.begin(reduce, 1);
  EXPECT_EQ(walk.possible_behind(reduce), 0U) << "it has begun";
  walk.end(receive, 1);
  EXPECT_EQ(walk.possible(send), 0U);
  walk.end(reduce, 1);
  EXPECT_EQ(walk.possible(send), 1U);
}

TEST(Walk, begins_anew_in_each_epoch) {
  const Schedule schedule = pass_on();
  Walk walk(schedule);
  const Bits all = first_bits(most_side_by_side);
  for (int epoch = 0; epoch < 2; ++epoch) {
    walk.restart(all);
    EXPECT_EQ(walk.over(), 0U);
    for (const int action : {receive, marked, reduce, send}) {
      EXPECT_EQ(walk.possible(action), all) << action;
      run(walk, action, all);
    }
    EXPECT_EQ(walk.over(), all);
  }
}

TEST(Walk, of_an_empty_schedule_is_over_at_once) {
  const Schedule schedule;
  Walk walk(schedule);
  walk.restart(0b11);
  EXPECT_EQ(walk.over(), 0b11U);
}

std::vector<std::pair<std::int64_t, std::int64_t>> runs_of(Bits bits) {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for_each_run(bits, [&](link::Range run) { runs.emplace_back(run.begin, run.end); });
  return runs;
}

TEST(Runs, are_neighbours_as_far_as_they_go) {
  using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(runs_of(0), Runs{});
  EXPECT_EQ(runs_of(0b1011100), (Runs{{2, 5}, {6, 7}}));
  EXPECT_EQ(runs_of(~Bits{0}), (Runs{{0, 64}}));
  EXPECT_EQ(runs_of(Bits{1} << 63 | 1), (Runs{{0, 1}, {63, 64}}));
}

}  // namespace
}  // namespace partita::collective
