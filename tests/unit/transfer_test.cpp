// Transfers without an MPI: which halves meet, what waits for whom, and how the end of one side reaches the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "support/fake_transfer.hpp"
#include "support/party.hpp"

namespace partita::test {
namespace {

constexpr int tag = 7;
constexpr std::int64_t bytes = 1024;

class Transfer : public testing::Test {
 protected:
  HalfTerms terms(Side side, std::int64_t total_bytes = bytes, std::int32_t partitions = 4,
                  Space space = Space::point_to_point) {
    HalfTerms terms;
    terms.side = side;
    terms.peer = side == Side::send ? 1 : 0;
    terms.space = space;
    terms.communicator = (side == Side::send ? sender : receiver).communicator;
    terms.tag = tag;
    terms.shape = {partitions, total_bytes, partitions, 0};
    return terms;
  }
  std::shared_ptr<SendParty> send(HalfTerms terms) {
    auto made = std::make_shared<SendParty>(sender.services, std::move(terms));
    sender.matcher.add(made->half);
    return made;
  }
  std::shared_ptr<RecvParty> recv(HalfTerms terms) {
    auto made = std::make_shared<RecvParty>(receiver.services, std::move(terms));
    receiver.matcher.add(made->half);
    return made;
  }
  std::shared_ptr<SendParty> send(std::int64_t total_bytes = bytes, std::int32_t partitions = 4) {
    return send(terms(Side::send, total_bytes, partitions));
  }
  std::shared_ptr<RecvParty> recv(std::int64_t total_bytes = bytes, std::int32_t partitions = 4) {
    return recv(terms(Side::recv, total_bytes, partitions));
  }
  std::shared_ptr<SendParty> send_in(Space space) { return send(terms(Side::send, bytes, 4, space)); }
  std::shared_ptr<RecvParty> recv_in(Space space) { return recv(terms(Side::recv, bytes, 4, space)); }
  /// Delivers letter `which` of those that wait.
  void deliver(std::size_t which) {
    const Letter letter = post[which];
    post.erase(post.begin() + static_cast<std::ptrdiff_t>(which));
    (letter.to == 0 ? sender : receiver).mail.take(letter);
  }
  void deliver_all() {
    while (!post.empty()) deliver(0);
  }
  template <class Kind>
  void free(FakeRank& at, std::shared_ptr<Party<Kind>>& party) {
    party->half.set_active(false);
    Half* half = &party->half;
    at.matcher.free(std::shared_ptr<Half>(std::move(party), half));
  }
  static std::string failure_of(const Half& half) {
    try {
      half.throw_if_failed();
    } catch (const Error& error) {
      return error.sentence();
    }
    return {};
  }
  static void fill(std::vector<std::byte>& buffer, int seed) {
    for (std::size_t i = 0; i < buffer.size(); ++i)
      buffer[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  }

  Post post;
  FakeRank sender{post, 0};
  FakeRank receiver{post, 1};
};

/// Whether the two were matched, and with each other.
void expect_pair(const std::shared_ptr<SendParty>& from, const std::shared_ptr<RecvParty>& to) {
  ASSERT_TRUE(from->half.matched());
  ASSERT_TRUE(to->half.matched());
  EXPECT_EQ(from->half.peer_id, to->half.id);
  EXPECT_EQ(to->half.peer_id, from->half.id);
  EXPECT_EQ(from->matches, 1);
  EXPECT_EQ(to->matches, 1);
}

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
  // The same peer and tag; between the requests on one rank, before and behind them on the other.
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
  EXPECT_FALSE(sender.deferred.flush());

  to->start();
  EXPECT_TRUE(sender.deferred.flush());
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

TEST_F(Transfer, sizes_that_differ_fail_both_sides_alike) {
  const auto to = recv(bytes * 2);
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("sends 1024 bytes"), std::string::npos) << failure_of(to->half);
  EXPECT_NE(failure_of(to->half).find("receives 2048 bytes"), std::string::npos) << failure_of(to->half);
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
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

TEST_F(Transfer, no_link_fails_both_sides_with_all_reasons) {
  sender.first.refusal = "too far";
  receiver.second.receiver_refusal = "too full";
  const auto to = recv();
  const auto from = send();
  deliver_all();
  for (const std::string& sentence : {failure_of(from->half), failure_of(to->half)}) {
    EXPECT_NE(sentence.find("first: too far; second: too full"), std::string::npos) << sentence;
  }
}

TEST_F(Transfer, a_put_that_fails_ends_the_other_side) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  to->start();
  from->half.submit({0, 1});
  sender.first.put_throws = true;
  EXPECT_THROW(from->half.submit({1, 2}), Error);
  EXPECT_TRUE(from->half.failed());
  EXPECT_FALSE(to->half.is_lost());
  deliver_all();
  ASSERT_TRUE(to->half.is_lost());
  const std::string why = to->half.why_lost().sentence();
  EXPECT_NE(why.find("the sender, rank 0, could not send: the fake link cannot put"), std::string::npos) << why;
}

TEST_F(Transfer, a_deferred_put_that_fails_ends_the_other_side) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  from->half.submit({0, 4});
  sender.first.put_throws = true;
  to->start();
  sender.deferred.flush();
  EXPECT_TRUE(from->half.failed());
  EXPECT_FALSE(sender.progress.wanted()) << "nothing is put again and again";
  deliver_all();
  EXPECT_TRUE(to->half.is_lost());
}

TEST_F(Transfer, a_connection_that_fails_ends_the_other_side) {
  sender.first.connect_throws = true;
  const auto to = recv();
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("cannot connect"), std::string::npos);
  to->start();
  ASSERT_TRUE(to->half.is_lost());
  EXPECT_NE(to->half.why_lost().sentence().find("the sender, rank 0, could not connect"), std::string::npos);
}

TEST_F(Transfer, a_receive_that_is_freed_before_its_offer_fails_the_send) {
  auto to = recv();
  free(receiver, to);
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("the receiver, rank 1, freed its request"), std::string::npos)
      << failure_of(from->half);
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(Transfer, a_send_that_is_freed_before_its_answer_ends_the_receive) {
  auto from = send();
  const std::weak_ptr<SendParty> kept = from;
  free(sender, from);
  EXPECT_FALSE(kept.expired()) << "the answer must still find it";
  const auto to = recv();
  deliver_all();
  to->start();
  ASSERT_TRUE(to->half.is_lost());
  EXPECT_NE(to->half.why_lost().sentence().find("the sender, rank 0, freed its request"), std::string::npos);
}

TEST_F(Transfer, a_freed_half_stays_until_its_peer_is_freed_too) {
  auto to = recv();
  auto from = send();
  deliver_all();
  const std::weak_ptr<SendParty> kept = from;
  const std::weak_ptr<RecvParty> other = to;
  free(sender, from);
  EXPECT_TRUE(sender.first.sender_released) << "the program's buffer may go";
  EXPECT_FALSE(kept.expired());
  deliver_all();
  EXPECT_TRUE(to->half.peer_freed);
  free(receiver, to);
  EXPECT_TRUE(other.expired()) << "the sender was done before";
  deliver_all();
  EXPECT_TRUE(kept.expired());
}

TEST_F(Transfer, nothing_is_submitted_to_a_receiver_that_was_freed) {
  auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  free(receiver, to);
  deliver_all();
  EXPECT_THROW(from->half.submit({0, 1}), Error);
  EXPECT_EQ(sender.first.puts, 0);
}

TEST_F(Transfer, what_was_given_up_does_not_leave_later) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  from->half.submit({0, 2});
  from->half.give_up();
  from->half.give_up_epoch();
  to->start();
  sender.deferred.flush();
  from->half.submit({2, 4});
  EXPECT_EQ(sender.first.puts, 0);
  EXPECT_FALSE(to->half.arrived({0, 1}));
}

TEST_F(Transfer, packed_bytes_apart_go_with_the_half) {
  HalfTerms apart = terms(Side::recv);
  apart.packed_apart = true;
  auto to = recv(apart);
  EXPECT_EQ(receiver.blocks.live, 1);
  auto from = send();
  deliver_all();
  EXPECT_NE(to->half.packed(), to->buffer.data());
  EXPECT_EQ(to->half.landing(), to->half.packed());
  free(receiver, to);
  EXPECT_EQ(receiver.blocks.live, 1) << "the sender may write there still";
  free(sender, from);
  deliver_all();
  EXPECT_EQ(receiver.blocks.live, 0);
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
      while (from->half.put_count() < partitions) sender.deferred.flush();
    });
    to->start();
    for (std::thread& worker : workers) worker.join();
    flusher.join();
    ASSERT_TRUE(to->half.all_arrived());
    ASSERT_EQ(to->buffer, from->buffer);
  }
}

}  // namespace
}  // namespace partita::test
