// The simulator finds what is wrong with a schedule.
#include "support/schedule_simulator.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collective/algorithms.hpp"
#include "support/collective_result.hpp"

namespace partita::test {
namespace {

using collective::Action;
using collective::Deed;
using collective::Kind;
using collective::Problem;
using collective::Region;
using collective::Schedule;
using collective::Writer;

testing::AssertionResult says(const std::string& what, const std::string& words) {
  if (what.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << what << "' says nothing of '" << words << "'";
}

/// A case and the schedules of an algorithm for it, for a test to break.
struct Broken {
  explicit Broken(const Shape& chosen) : shape(chosen), made(nonempty_case(chosen)) {
    for (const Problem& problem : made.problems)
      schedules.push_back(collective::choose(problem, "auto").write(problem));
  }
  static Case nonempty_case(const Shape& shape) {
    Random random(1);
    for (;;) {
      Case made = make_case(shape, random);
      if (made.problems[0].sent_block().bytes > 0) return made;
    }
  }
  std::string fault() const { return fault_of_all(made.problems, schedules); }
  /// What comes of it in at most 100 runs, for what is wrong in some orders only.
  std::string outcome() const {
    Random random(2);
    for (int run = 0; run < 100; ++run) {
      Simulator simulator(made.problems, schedules, 2, random);
      const Contents contents = contents_of(shape, run);
      const std::string stuck = simulator.run(contents);
      if (!stuck.empty()) return stuck;
      const std::string wrong = wrong_result(made, simulator, 2, contents);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  Action& first(int rank, Deed deed) {
    for (Action& action : schedules[static_cast<std::size_t>(rank)].actions) {
      if (action.deed == deed) return action;
    }
    throw std::logic_error("no such action");
  }

  Shape shape;
  Case made;
  std::vector<Schedule> schedules;
};

Broken broadcast() {
  return Broken({.kind = Kind::bcast, .size = 4});
}
Broken reduction() {
  return Broken({.kind = Kind::allreduce, .size = 3, .commutative = false, .unit_bytes = 2});
}

TEST(ScheduleSimulator, finds_nothing_wrong_with_what_is_right) {
  for (const Broken& right : {broadcast(), reduction()}) {
    EXPECT_EQ(right.fault(), "");
    EXPECT_EQ(right.outcome(), "");
  }
}

TEST(ScheduleSimulator, finds_a_send_that_does_not_wait_for_its_bytes) {
  Broken forwarding = broadcast();
  forwarding.first(2, Deed::send).after.clear();
  EXPECT_TRUE(says(forwarding.fault(), "race"));
  EXPECT_TRUE(says(forwarding.outcome(), "wrong bytes"));

  Broken marked = broadcast();
  marked.first(0, Deed::send).after.clear();
  EXPECT_TRUE(says(marked.fault(), "race"));
  EXPECT_TRUE(says(marked.outcome(), "wrong bytes"));
}

TEST(ScheduleSimulator, finds_every_missing_wait_of_a_reduction) {
  const Broken right = reduction();
  for (std::size_t rank = 0; rank < right.schedules.size(); ++rank) {
    for (std::size_t a = 0; a < right.schedules[rank].actions.size(); ++a) {
      if (right.schedules[rank].actions[a].after.empty()) continue;
      Broken broken = right;
      broken.schedules[rank].actions[a].after.clear();
      EXPECT_TRUE(says(broken.fault(), "race")) << rank << ", " << a;
      EXPECT_TRUE(says(broken.outcome(), "wrong bytes")) << rank << ", " << a;
    }
  }
}

TEST(ScheduleSimulator, finds_messages_that_do_not_meet) {
  Broken elsewhere = broadcast();
  elsewhere.first(0, Deed::send).peer = 3;
  EXPECT_TRUE(says(elsewhere.fault(), "sends and"));

  Broken unsent = broadcast();
  unsent.schedules[2].actions.pop_back();
  EXPECT_TRUE(says(unsent.fault(), "receives without sends from 2 to 3"));

  Broken shorter = reduction();
  shorter.first(0, Deed::send).from.bytes -= 2;
  EXPECT_TRUE(says(shorter.fault(), "different sizes at its ends"));

  Broken empty = broadcast();
  Action& send = empty.first(0, Deed::send);
  send.from.bytes = 0;
  send.after.clear();
  EXPECT_TRUE(says(empty.fault(), "different sizes at its ends"));
}

TEST(ScheduleSimulator, finds_a_wait_for_what_moves_nothing) {
  Broken broken = broadcast();
  Schedule& schedule = broken.schedules[3];
  schedule.actions.push_back({.deed = Deed::send, .peer = 0, .after = {0}});
  EXPECT_TRUE(says(broken.fault(), "waits"));
}

TEST(ScheduleSimulator, finds_a_reduction_in_the_wrong_order) {
  Broken broken = reduction();
  broken.made.origins[1][0] = {{1, 0}, {0, 0}, {2, 0}};
  EXPECT_TRUE(says(broken.outcome(), "rank 1 has wrong bytes"));
}

TEST(ScheduleSimulator, finds_that_ranks_wait_for_each_other) {
  Broken broken = Broken({.kind = Kind::allreduce, .size = 2, .commutative = false, .unit_bytes = 2});
  for (int rank = 0; rank < 2; ++rank) {
    Schedule& schedule = broken.schedules[static_cast<std::size_t>(rank)];
    // The receive comes first, that the send may wait for it.
    Writer writer;
    const Region from = broken.made.problems[static_cast<std::size_t>(rank)].sent_block();
    const int received = writer.receive(1 - rank, writer.slot(from.bytes));
    writer.send(1 - rank, from, {writer.mark(), received});
    schedule = std::move(writer).finished();
  }
  EXPECT_EQ(broken.fault(), "");
  EXPECT_TRUE(says(broken.outcome(), "waits for ever"));
}

TEST(ScheduleSimulator, finds_writes_where_nothing_may_change) {
  Broken broken = Broken({.kind = Kind::allreduce, .size = 2});
  Writer writer;
  const Problem& problem = broken.made.problems[0];
  writer.copy(problem.sent_block(), problem.received_block(), {writer.mark()});
  broken.schedules = {std::move(writer).finished(), {}};
  broken.made.origins[0][0].clear();
  broken.made.origins[1][0].clear();
  EXPECT_TRUE(says(broken.outcome(), "changed on rank 0"));
}

/// The fault of a schedule of rank 0 of two, whose blocks have 8 bytes.
template <class Write>
std::string fault_of_written(bool in_place, Write write) {
  Problem problem{.kind = Kind::alltoall, .size = 2, .sent = {8, 8}, .received = {8, 8}};
  problem.in_place = in_place;
  problem.unit_bytes = 4;
  Writer writer;
  write(writer, problem);
  return fault_of(problem, std::move(writer).finished());
}

TEST(ScheduleSimulator, knows_which_memory_is_the_same_in_place) {
  const auto exchange = [](Writer& writer, const Problem& problem) {
    writer.send(1, problem.sent_block(1), {writer.mark()});
    writer.receive(1, problem.received_block(1));
  };
  EXPECT_EQ(fault_of_written(false, exchange), "");
  EXPECT_TRUE(says(fault_of_written(true, exchange), "race"));
}

TEST(ScheduleSimulator, lets_nobody_write_what_is_sent_or_what_may_still_arrive) {
  EXPECT_TRUE(says(fault_of_written(false,
                                    [](Writer& writer, const Problem& problem) {
                                      const Region slot = writer.slot(8);
                                      const int copied = writer.copy(problem.sent_block(), slot, {writer.mark()});
                                      const int sent = writer.send(1, slot, {copied});
                                      writer.reduce(problem.sent_block(1), slot, {sent});
                                    }),
                   "actions 2 and 3 race"));
  EXPECT_TRUE(says(fault_of_written(false,
                                    [](Writer& writer, const Problem& problem) {
                                      const int marked = writer.mark();
                                      writer.copy(problem.sent_block(), problem.received_block(), {marked});
                                      writer.receive(1, problem.received_block().part(4, 4));
                                    }),
                   "actions 1 and 2 race"));
}

TEST(ScheduleSimulator, checks_each_action) {
  const Problem problem{.kind = Kind::allreduce, .size = 2, .sent = {8}, .received = {8}, .unit_bytes = 4};
  const Region sent = problem.sent_block();
  const Region received = problem.received_block();
  const auto fault = [&](const Action& action) {
    return fault_of(problem, {.actions = {{.deed = Deed::mark}, action}, .slot_bytes = {}});
  };
  EXPECT_EQ(fault({.deed = Deed::copy, .from = sent, .to = received, .after = {0}}), "");
  EXPECT_TRUE(says(fault({.deed = Deed::copy, .from = sent, .to = received, .after = {1}}), "no earlier action"));
  EXPECT_TRUE(says(fault({.deed = Deed::receive, .peer = 1, .to = received, .after = {0}}), "waits"));
  EXPECT_TRUE(says(fault({.deed = Deed::receive, .peer = 2, .to = received}), "no rank"));
  EXPECT_TRUE(says(fault({.deed = Deed::send, .peer = 0, .from = sent, .after = {0}}), "own rank"));
  EXPECT_TRUE(says(fault({.deed = Deed::send, .peer = 1, .from = sent, .to = received, .after = {0}}), "region"));
  EXPECT_TRUE(says(fault({.deed = Deed::send, .peer = 1, .from = sent.part(1, 8), .after = {0}}), "outside"));
  EXPECT_TRUE(says(fault({.deed = Deed::copy, .from = sent.part(0, 4), .to = received, .after = {0}}), "sizes"));
  EXPECT_TRUE(says(fault({.deed = Deed::copy, .from = sent.part(0, 4), .to = sent.part(2, 4), .after = {0}}),
                   "reads what it writes"));
  EXPECT_TRUE(says(fault({.deed = Deed::reduce, .from = sent.part(2, 4), .to = received.part(4, 4), .after = {0}}),
                   "parts of elements"));
  EXPECT_EQ(fault_of(problem, {}), "0 marks");
}

}  // namespace
}  // namespace partita::test
