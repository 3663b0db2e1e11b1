// Sends that cannot be connected for now, since memory that a peer has freed is mapped at the place of the receiver's;
// and halves that let go of such memory.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "support/fake_pair.hpp"

namespace partita::test {
namespace {

class TransferObstacles : public FakePair {
 protected:
  /// Takes steps until there is nothing left to do.
  void poll_until_idle() {
    while (sender.progress.wanted()) sender.progress.poll();
  }
  /// A send whose receiver has answered, and which cannot be connected.
  std::shared_ptr<SendParty> obstructed_send() {
    sender.first.is_obstructed = true;
    const auto from = send();
    deliver_all();
    return from;
  }
  void connect_without_obstacle() {
    sender.first.is_obstructed = false;
    poll_until_idle();
  }
  /// `cause` comes up at a later try to connect.
  void expect_later_failure(bool& cause, const std::string& sentence) {
    const auto to = recv();
    const auto from = obstructed_send();
    cause = true;
    poll_until_idle();
    EXPECT_EQ(failure_of(from->half), sentence);
    deliver_all();
    to->start();
    EXPECT_TRUE(to->half.is_lost());
  }
};

TEST_F(TransferObstacles, a_send_is_connected_once_its_obstacle_has_gone) {
  auto to = recv();
  auto from = obstructed_send();
  to->start();
  from->start();
  fill(from->buffer, 3);
  from->half.complete({0, 4});
  sender.progress.poll();
  EXPECT_FALSE(from->half.matched());
  EXPECT_FALSE(from->half.failed());
  EXPECT_TRUE(sender.progress.wanted());
  const std::string why = sender.matcher.explain_unmatched(from->half);
  EXPECT_NE(why.find("memory of the fake link is in the way"), std::string::npos) << why;
  connect_without_obstacle();
  expect_pair(from, to);
  EXPECT_TRUE(to->half.all_arrived());
  EXPECT_EQ(to->buffer, from->buffer);
  free(sender, from);
  free(receiver, to);
  deliver_all();
  expect_nothing_left();
}

TEST_F(TransferObstacles, several_sends_wait_and_each_is_connected_once) {
  const auto to = recv();
  const auto other_to = recv();
  const auto from = obstructed_send();
  const auto other_from = obstructed_send();
  sender.progress.poll();
  connect_without_obstacle();
  expect_pair(from, to);
  expect_pair(other_from, other_to);
}

TEST_F(TransferObstacles, an_obstacle_that_stays_fails_both_sides_with_its_sentence) {
  sender.settings.timeout_s = 0.005;
  auto to = recv();
  auto from = obstructed_send();
  const std::weak_ptr<SendParty> kept = from;
  poll_until_idle();
  EXPECT_EQ(failure_of(from->half), "memory of the fake link is in the way");
  deliver_all();
  to->start();
  ASSERT_TRUE(to->half.is_lost());
  EXPECT_EQ(to->half.why_lost().sentence(),
            "the sender, rank 0, could not connect: memory of the fake link is in the way");
  free(sender, from);
  EXPECT_FALSE(kept.expired()) << "the receiver may write to its link";
  free(receiver, to);
  deliver_all();
  EXPECT_TRUE(kept.expired());
  expect_nothing_left();
}

TEST_F(TransferObstacles, a_connection_that_fails_later_fails_both_sides) {
  expect_later_failure(sender.first.connect_throws, "the fake link cannot connect");
}

TEST_F(TransferObstacles, a_send_that_is_freed_meanwhile_is_not_connected_and_stays_for_its_receiver) {
  auto to = recv();
  auto from = obstructed_send();
  const std::weak_ptr<SendParty> kept = from;
  free(sender, from);
  connect_without_obstacle();
  ASSERT_FALSE(kept.expired());
  EXPECT_FALSE(kept.lock()->half.matched());
  deliver_all();
  EXPECT_TRUE(to->half.peer_freed);
  free(receiver, to);
  deliver_all();
  EXPECT_TRUE(kept.expired());
  expect_nothing_left();
}

TEST_F(TransferObstacles, a_receive_that_is_freed_meanwhile_ends_the_send) {
  auto to = recv();
  auto from = obstructed_send();
  free(receiver, to);
  deliver_all();
  poll_until_idle();
  const std::string why = failure_of(from->half);
  EXPECT_NE(why.find("the receiver has freed its request (rank 1)"), std::string::npos) << why;
  const std::weak_ptr<SendParty> kept = from;
  free(sender, from);
  deliver_all();
  EXPECT_TRUE(kept.expired());
  expect_nothing_left();
}

TEST_F(TransferObstacles, a_second_answer_and_an_ask_are_malformed_meanwhile) {
  const auto to = recv();
  const auto from = obstructed_send();
  EXPECT_THROW(hand_over({1, 0, write(Answer{from->half.id, to->half.id, {}, {}})}), Error);
  EXPECT_THROW(hand_over({1, 0, write(Ask{from->half.id, "first"})}), Error);
  connect_without_obstacle();
  expect_pair(from, to);
}

/// The pauses are of 16 ms at most: in the 5 s for what is in use there are hundreds of tries.
TEST_F(TransferObstacles, what_nobody_uses_is_closed_after_a_short_wait) {
  sender.first.is_unused = true;
  const auto to = recv();
  const auto before = std::chrono::steady_clock::now();
  const auto from = obstructed_send();
  poll_until_idle();
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(250)) << "kernels may have ended";
  expect_pair(from, to);
  EXPECT_EQ(sender.first.ways_made, 1);
  EXPECT_LE(sender.first.connects, 25);
}

TEST_F(TransferObstacles, what_is_in_use_is_not_closed) {
  sender.settings.timeout_s = 1;
  const auto to = recv();
  const auto from = obstructed_send();
  poll_until_idle();
  EXPECT_TRUE(from->half.failed());
  EXPECT_EQ(sender.first.ways_made, 0);
}

/// It may have been in use until then.
TEST_F(TransferObstacles, what_nobody_uses_is_closed_where_there_is_no_time_to_wait) {
  sender.settings.timeout_s = 0.002;
  sender.first.is_unused = true;
  const auto to = recv();
  const auto from = obstructed_send();
  poll_until_idle();
  expect_pair(from, to);
}

TEST_F(TransferObstacles, nothing_is_closed_for_a_send_that_is_freed_or_whose_receive_is) {
  sender.settings.timeout_s = 0.002;
  sender.first.is_unused = true;
  auto to = recv();
  const auto other_to = recv();
  const auto from = obstructed_send();
  auto other_from = obstructed_send();
  free(receiver, to);
  free(sender, other_from);
  deliver_all();
  poll_until_idle();
  EXPECT_EQ(sender.first.ways_made, 0);
}

// ---- What a half holds of a peer that has freed its request ----

TEST_F(TransferObstacles, a_half_lets_go_of_its_peers_memory_when_that_has_freed_its_request) {
  auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  to->start();
  from->half.submit({0, 4});
  from->half.set_active(false);
  free(receiver, to);
  EXPECT_FALSE(sender.first.peer_released);
  deliver_all();
  EXPECT_TRUE(sender.first.peer_released);
}

TEST_F(TransferObstacles, kernels_are_asked_once_something_is_in_the_way) {
  auto to = recv();
  auto from = send();
  deliver_all();
  sender.first.is_routed = true;
  from->kernels_store = true;
  free(receiver, to);
  deliver_all();
  EXPECT_FALSE(sender.first.peer_released) << "a handler of messages asks no GPU";
  const auto next_to = recv();
  const auto next_from = obstructed_send();
  sender.progress.poll();
  EXPECT_FALSE(sender.first.peer_released) << "its kernels may store there";
  from->kernels_store = false;
  while (!sender.first.peer_released) sender.progress.poll();
  connect_without_obstacle();
  expect_pair(next_from, next_to);
}

TEST_F(TransferObstacles, kernels_may_store_to_a_peer_that_has_given_up) {
  auto to = recv();
  auto from = send();
  deliver_all();
  from->start();
  to->start();
  sender.first.is_routed = true;
  to->half.fail_on_both_sides("gave its request up", Error(ErrorClass::other, "it takes too long"));
  free(receiver, to);
  deliver_all();
  sender.settings.timeout_s = 0.01;
  const auto next_to = recv();
  const auto next_from = obstructed_send();
  poll_until_idle();
  EXPECT_TRUE(next_from->half.failed());
  EXPECT_FALSE(sender.first.peer_released);
}

TEST_F(TransferObstacles, streams_that_move_a_half_are_asked_until_they_end) {
  struct Streams final : Half::Streams {
    bool may_use_peer() const override { return true; }
  } streams;
  const auto from = send();
  EXPECT_TRUE(from->half.kernels_are_done());
  from->half.set_streams(&streams);
  EXPECT_FALSE(from->half.kernels_are_done());
  from->half.set_streams(nullptr);
  EXPECT_TRUE(from->half.kernels_are_done());
}

TEST_F(TransferObstacles, sends_that_wait_for_one_place_take_one_try_in_a_round) {
  const auto to = recv();
  const auto other_to = recv();
  const auto from = obstructed_send();
  const auto other_from = obstructed_send();
  const int before = sender.first.connects;
  sender.progress.poll();
  EXPECT_EQ(sender.first.connects, before + 1);
  connect_without_obstacle();
  expect_pair(from, to);
  expect_pair(other_from, other_to);
}

/// A hundred rounds of a millisecond each would take as many tries.
TEST_F(TransferObstacles, the_pauses_between_tries_grow) {
  sender.settings.timeout_s = 0.2;
  const auto to = recv();
  const auto from = obstructed_send();
  poll_until_idle();
  EXPECT_TRUE(from->half.failed());
  EXPECT_LE(sender.first.connects, 14);
}

TEST_F(TransferObstacles, a_want_of_memory_at_a_later_try_fails_both_sides) {
  expect_later_failure(sender.first.connect_lacks_memory, "out of memory");
}

TEST_F(TransferObstacles, a_half_that_could_not_let_go_does_before_another_is_connected_again) {
  auto to = recv();
  auto from = send();
  deliver_all();
  sender.first.holds_peer = true;
  free(receiver, to);
  deliver_all();
  EXPECT_FALSE(sender.first.peer_released);
  const auto next_to = recv();
  const auto next_from = obstructed_send();
  sender.progress.poll();
  EXPECT_FALSE(next_from->half.matched());
  sender.first.holds_peer = false;
  while (!sender.first.peer_released) sender.progress.poll();
  connect_without_obstacle();
  expect_pair(next_from, next_to);
}

TEST_F(TransferObstacles, a_half_that_could_not_let_go_may_be_freed) {
  auto to = recv();
  auto from = send();
  deliver_all();
  sender.first.holds_peer = true;
  free(receiver, to);
  deliver_all();
  free(sender, from);
  const auto next_to = recv();
  const auto next_from = obstructed_send();
  sender.progress.poll();
  connect_without_obstacle();
  expect_pair(next_from, next_to);
}

}  // namespace
}  // namespace partita::test
