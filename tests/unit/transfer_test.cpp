// Transfers without an MPI: which halves meet, over which link, and what waits for whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "support/fake_pair.hpp"

namespace partita::test {
namespace {

class Transfer : public FakePair {};

TEST_F(Transfer, halves_meet_in_the_order_in_which_they_were_added_however_offers_arrive) {
  const std::vector sends{send(), send(), send()};
  std::vector receives{recv()};
  ASSERT_EQ(post.size(), 3);
  deliver(2);
  receives.push_back(recv());
  deliver(1);
  deliver(0);
  receives.push_back(recv());
  deliver_all();
  for (std::size_t i = 0; i < sends.size(); ++i) expect_pair(sends[i], receives[i]);
  EXPECT_FALSE(sender.progress.wanted());
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(Transfer, another_communicator_does_not_shift_the_order) {
  HalfTerms elsewhere = terms(Side::send);
  elsewhere.communicator = std::make_shared<Communicator>();
  elsewhere.communicator->id = 2;
  const auto other = send(elsewhere);
  const auto from = send();
  const auto to = recv();
  deliver_all();
  expect_pair(from, to);
  EXPECT_FALSE(other->half.matched());
}

TEST_F(Transfer, transfers_of_another_space_do_not_shift_the_order) {
  // They have the peer and the tag of the requests, and come between these on one rank, before and behind them on the
  // other.
  const auto first = send();
  const std::vector internal_sends{send_in(Space::collective), send_in(Space::queue), send_in(Space::collective)};
  const auto second = send();
  const auto to_channel = recv_in(Space::channel);
  const auto to_first_collective = recv_in(Space::collective);
  const auto to_first = recv();
  const auto to_second = recv();
  const auto to_queue = recv_in(Space::queue);
  const auto to_second_collective = recv_in(Space::collective);
  while (!post.empty()) deliver(post.size() - 1);
  expect_pair(first, to_first);
  expect_pair(second, to_second);
  expect_pair(internal_sends[0], to_first_collective);
  expect_pair(internal_sends[1], to_queue);
  expect_pair(internal_sends[2], to_second_collective);
  EXPECT_FALSE(to_channel->half.matched());
}

TEST_F(Transfer, a_half_gets_its_place_when_it_is_added_not_when_it_is_made) {
  SendParty made_first(sender.services, terms(Side::send));
  const auto added_first = send();
  sender.matcher.add(made_first.half);
  const auto to_first = recv();
  const auto to_second = recv();
  deliver_all();
  expect_pair(added_first, to_first);
  EXPECT_EQ(made_first.half.peer_id, to_second->half.id);
}

TEST_F(Transfer, a_half_that_cannot_be_added_leaves_its_place_to_the_next) {
  const auto first = send();
  sender.mail.is_full = true;
  EXPECT_THROW(send(), std::bad_alloc);
  sender.mail.is_full = false;
  const auto second = send();
  const auto to_first = recv();
  const auto to_second = recv();
  deliver_all();
  expect_pair(first, to_first);
  expect_pair(second, to_second);
}

TEST_F(Transfer, a_receive_that_waits_names_the_offers_of_its_own_space_only) {
  const auto to = recv();
  const auto unwanted = send_in(Space::collective);
  deliver_all();
  const std::string unmatched = receiver.matcher.explain_unmatched(to->half);
  EXPECT_NE(unmatched.find("it offers nothing that is not received here"), std::string::npos) << unmatched;
}

TEST_F(Transfer, what_is_submitted_early_waits_for_the_receiver_and_then_arrives) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  fill(from->buffer, 3);
  from->start();
  from->half.submit({0, 2});
  from->half.submit({3, 4});
  EXPECT_EQ(from->half.put_count(), 0);
  EXPECT_EQ(from->half.deferred_count(), 3);
  EXPECT_TRUE(sender.progress.wanted());
  sender.progress.poll();
  EXPECT_EQ(from->half.put_count(), 0);

  to->start();
  sender.progress.poll();
  EXPECT_EQ(from->half.put_count(), 3);
  EXPECT_EQ(sender.first.puts, 2) << "neighbours that wait leave together";
  EXPECT_FALSE(sender.progress.wanted());
  EXPECT_TRUE(to->half.arrived({0, 2}));
  EXPECT_FALSE(to->half.arrived({2, 3}));
  from->half.submit({2, 3});
  EXPECT_TRUE(from->half.all_finished());
  EXPECT_TRUE(to->half.all_arrived());
  EXPECT_EQ(to->buffer, from->buffer);
}

TEST_F(Transfer, epochs_that_were_open_before_the_match_are_opened_by_it) {
  const auto from = send();
  from->start();
  const auto to = recv();
  to->start();
  deliver_all();
  fill(from->buffer, 9);
  from->half.submit({0, 4});
  EXPECT_TRUE(to->half.all_arrived());
  EXPECT_EQ(to->buffer, from->buffer);
}

TEST_F(Transfer, the_next_link_serves_where_the_first_refuses_on_either_side) {
  sender.first.refusal = "too far";
  const auto to = recv();
  const auto from = send();
  deliver_all();
  EXPECT_EQ(from->half.link_name(), "second");
  EXPECT_NE(to->half.link_reason().find("first: too far"), std::string::npos) << to->half.link_reason();

  sender.first.refusal.clear();
  receiver.first.receiver_refusal = "too full";
  const auto to_again = recv();
  const auto from_again = send();
  deliver_all();
  EXPECT_EQ(from_again->half.link_name(), "second");
  EXPECT_NE(from_again->half.link_reason().find("first: too full"), std::string::npos);
}

TEST_F(Transfer, where_every_link_refuses_both_sides_hear_what_kind_of_send_it_is) {
  sender.first.refusal = sender.second.refusal = "too far";
  for (const auto& [space, kind] : {std::pair{Space::point_to_point, "partitioned"}, {Space::queue, "persistent"}}) {
    const auto from = send_in(space);
    const auto to = recv_in(space);
    deliver_all();
    for (const std::string& sentence : {failure_of(from->half), failure_of(to->half)}) {
      EXPECT_NE(sentence.find("no link can move a " + std::string(kind) + " send"), std::string::npos) << sentence;
    }
  }
}

// ---- Links that the sender holds back ----

TEST_F(Transfer, a_costly_link_is_not_started_where_another_serves) {
  sender.second.can.costly_to_start = true;
  const auto from = send();
  const auto to = recv();
  deliver_all();
  expect_pair(from, to);
  EXPECT_EQ(from->half.link_name(), "first");
  EXPECT_EQ(sender.second.senders, 0);
}

TEST_F(Transfer, a_link_that_is_held_back_starts_when_the_receiver_demands_it) {
  sender.second.can.costly_to_start = true;
  const auto from = send();
  HalfTerms demanding = terms(Side::recv);
  demanding.link = "second";
  const auto to = recv(demanding);
  deliver_all();
  expect_pair(from, to);
  EXPECT_EQ(to->half.link_name(), "second");
  EXPECT_EQ(sender.second.senders, 1);
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(Transfer, a_link_that_is_held_back_starts_where_those_before_it_refuse) {
  sender.second.can.costly_to_start = true;
  receiver.first.receiver_refusal = "too full";
  const auto to = recv();
  const auto from = send();
  deliver_all();
  expect_pair(from, to);
  EXPECT_EQ(to->half.link_name(), "second");
  EXPECT_NE(to->half.link_reason().find("first: too full"), std::string::npos) << to->half.link_reason();
}

TEST_F(Transfer, a_link_that_cannot_start_when_it_is_asked_for_fails_both_sides) {
  sender.second.can.costly_to_start = true;
  sender.second.sender_throws = true;
  receiver.first.receiver_refusal = "too full";
  const auto to = recv();
  const auto from = send();
  deliver_all();
  for (const std::string& sentence : {failure_of(from->half), failure_of(to->half)}) {
    EXPECT_NE(sentence.find("first: too full; second: the fake link cannot start"), std::string::npos) << sentence;
  }
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(Transfer, an_ask_that_nobody_can_mean_is_refused) {
  const auto from = send();
  EXPECT_THROW(hand_over({1, 0, write(Ask{from->half.id + 1, "second"})}), Error) << "no such send";
  EXPECT_THROW(hand_over({0, 0, write(Ask{from->half.id, "second"})}), Error) << "of another rank's receive";
  const auto to = recv();
  deliver_all();
  EXPECT_THROW(hand_over({1, 0, write(Ask{from->half.id, "second"})}), Error) << "it is matched";
}

TEST_F(Transfer, an_answer_that_does_not_fit_the_send_fails_it) {
  for (const auto& [partitioning, transports] :
       {std::pair{link::Partitioning(4, 2 * bytes), 4}, std::pair{link::Partitioning(4, bytes), 5}}) {
    const auto from = send();
    const Answer::Choice choice{partitioning, transports, 1, false, "first", memory::Kind::host, {}, {}};
    hand_over({1, 0, write(Answer{from->half.id, 77, choice, {}})});
    EXPECT_FALSE(from->half.matched());
    EXPECT_NE(failure_of(from->half).find("for a send of 1024 bytes in 4 partitions"), std::string::npos)
        << failure_of(from->half);
  }
}

// ---- Deferral ----

TEST_F(Transfer, each_deferred_send_waits_for_its_own_receiver) {
  const std::vector sends{send(), send(), send()};
  const std::vector receives{recv(), recv(), recv()};
  deliver_all();
  for (const auto& from : sends) {
    from->start();
    from->half.submit({0, 4});
  }
  receives[1]->start();
  sender.progress.poll();
  EXPECT_TRUE(sender.progress.wanted());
  EXPECT_TRUE(receives[1]->half.all_arrived());
  EXPECT_EQ(sends[0]->half.deferred_count(), 4);
  EXPECT_EQ(sends[2]->half.deferred_count(), 4);
  receives[2]->start();
  receives[0]->start();
  sender.progress.poll();
  EXPECT_TRUE(receives[0]->half.all_arrived());
  EXPECT_TRUE(receives[2]->half.all_arrived());
  EXPECT_FALSE(sender.progress.wanted());
}

TEST_F(Transfer, no_step_finds_a_deferred_send_that_was_withdrawn) {
  const auto from = send();
  const auto to = recv();
  deliver_all();
  from->start();
  from->half.submit({0, 4});
  from->half.withdraw();
  to->start();
  EXPECT_FALSE(sender.progress.wanted());
  sender.progress.poll();
  EXPECT_EQ(sender.first.puts, 0);
}

TEST_F(Transfer, what_is_deferred_again_and_again_arrives_in_each_epoch) {
  const auto from = send();
  const auto to = recv();
  deliver_all();
  for (int round = 0; round < 20; ++round) {
    fill(from->buffer, round);
    from->start();
    from->half.submit({1, 3});
    sender.progress.poll();
    EXPECT_EQ(from->half.deferred_count(), 2) << "the receiver is an epoch behind";
    to->start();
    from->half.submit({0, 1});
    from->half.submit({3, 4});
    EXPECT_TRUE(from->half.flush());
    ASSERT_TRUE(to->half.all_arrived());
    ASSERT_EQ(to->buffer, from->buffer);
  }
}

/// FakeSender throws where a transport partition travels twice.
TEST_F(Transfer, threads_that_submit_and_flush_put_each_transport_partition_once) {
  constexpr std::int32_t partitions = 64;
  constexpr int threads = 4;
  const auto to = recv(bytes, partitions);
  const auto from = send(bytes, partitions);
  deliver_all();
  ASSERT_EQ(from->half.plan().transport_partitions(), partitions);
  for (int round = 0; round < 50; ++round) {
    fill(from->buffer, round);
    from->start();
    std::vector<std::thread> workers;
    for (int w = 0; w < threads; ++w) {
      workers.emplace_back([&, w] {
        for (std::int32_t t = w; t < partitions; t += threads) from->half.submit({t, t + 1});
      });
    }
    std::thread flusher([&] {
      while (from->half.put_count() < partitions) sender.progress.poll();
    });
    to->start();
    for (std::thread& worker : workers) worker.join();
    flusher.join();
    ASSERT_TRUE(to->half.all_arrived());
    ASSERT_EQ(to->buffer, from->buffer);
  }
}

/// The threads are more than the processors, so that some are kept waiting in the middle of a flush, which they end
/// when all has arrived and the receiver is gone.
TEST_F(Transfer, a_late_flush_does_not_mind_that_the_receiver_has_all_and_is_freed) {
  constexpr std::size_t threads = 8;
  for (int round = 0; round < 40; ++round) {
    auto from = send();
    auto to = recv();
    deliver_all();
    from->start();
    from->half.submit({0, 4});
    std::atomic<bool> over{false};
    std::vector<std::string> failures(threads);
    std::vector<std::thread> flushers;
    for (std::string& failure : failures) {
      flushers.emplace_back([&] {
        try {
          while (!over) from->half.flush();
        } catch (const std::exception& error) {
          failure = error.what();
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    to->start();
    while (from->half.put_count() < 4) from->half.flush();
    EXPECT_TRUE(to->half.all_arrived());
    free(receiver, to);
    deliver_all();
    EXPECT_TRUE(from->half.peer_freed);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    over = true;
    for (std::thread& flusher : flushers) flusher.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "") << "round " << round;
    free(sender, from);
    deliver_all();
  }
}

}  // namespace
}  // namespace partita::test
