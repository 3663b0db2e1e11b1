// How transfers end without an MPI: failures on either side, epochs given up, halves freed at any time.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support/fake_pair.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

class TransferEnds : public FakePair {};

TEST_F(TransferEnds, a_put_that_fails_ends_the_other_side) {
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

TEST_F(TransferEnds, a_deferred_put_that_fails_ends_the_other_side) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  from->half.submit({0, 4});
  sender.first.put_throws = true;
  to->start();
  sender.progress.poll();
  EXPECT_TRUE(from->half.failed());
  EXPECT_FALSE(sender.progress.wanted()) << "nothing is put again and again";
  deliver_all();
  EXPECT_TRUE(to->half.is_lost());
}

TEST_F(TransferEnds, a_connection_that_fails_ends_the_other_side) {
  sender.first.connect_throws = true;
  const auto to = recv();
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("cannot connect"), std::string::npos);
  to->start();
  ASSERT_TRUE(to->half.is_lost());
  EXPECT_NE(to->half.why_lost().sentence().find("the sender, rank 0, could not connect"), std::string::npos);
}

TEST_F(TransferEnds, what_was_given_up_does_not_leave_later) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  from->half.submit({0, 2});
  from->half.give_up();
  from->half.give_up_epoch();
  to->start();
  sender.progress.poll();
  from->half.submit({2, 4});
  EXPECT_EQ(sender.first.puts, 0);
  EXPECT_FALSE(to->half.arrived({0, 1}));
}

TEST_F(TransferEnds, sizes_that_differ_fail_both_sides_alike) {
  const auto to = recv(bytes * 2);
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("sends 1024 bytes"), std::string::npos) << failure_of(to->half);
  EXPECT_NE(failure_of(to->half).find("receives 2048 bytes"), std::string::npos) << failure_of(to->half);
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
}

TEST_F(TransferEnds, no_link_fails_both_sides_with_all_reasons) {
  sender.first.refusal = "too far";
  receiver.second.receiver_refusal = "too full";
  const auto to = recv();
  const auto from = send();
  deliver_all();
  for (const std::string& sentence : {failure_of(from->half), failure_of(to->half)}) {
    EXPECT_NE(sentence.find("first: too far; second: too full"), std::string::npos) << sentence;
  }
}

TEST_F(TransferEnds, a_receiver_that_fails_ends_the_sender) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  to->start();
  from->half.submit({0, 1});
  to->half.fail_on_both_sides("failed", Error(ErrorClass::other, "its GPU is gone"));
  EXPECT_EQ(failure_of(to->half), "its GPU is gone");
  deliver_all();
  ASSERT_TRUE(from->half.is_lost());
  EXPECT_THROW(from->half.submit({1, 2}), Error);
  EXPECT_NE(failure_of(from->half).find("the receiver, rank 1, failed: its GPU is gone"), std::string::npos)
      << failure_of(from->half);
  deliver_all();
  EXPECT_EQ(failure_of(to->half), "its GPU is gone") << "the first word counts";
}

TEST_F(TransferEnds, a_cause_that_is_passed_on_names_the_rank_that_began_and_no_other) {
  const auto to = recv();
  const auto from = send();
  const auto other_to = recv();
  const auto other_from = send();
  deliver_all();
  from->start();
  other_from->start();
  to->start();
  from->half.fail_on_both_sides("could not send", Error(ErrorClass::truncate, "its disk is full"));
  deliver_all();
  const Error heard = to->half.why_lost();
  EXPECT_EQ(heard.sentence(), "the sender, rank 0, could not send: its disk is full");
  other_to->half.fail_on_both_sides("gave its request up", heard);
  deliver_all();
  ASSERT_TRUE(other_from->half.is_lost());
  EXPECT_EQ(other_from->half.why_lost().sentence(), "rank 0 could not send: its disk is full");
  EXPECT_EQ(other_from->half.why_lost().error_class(), ErrorClass::truncate);
}

TEST_F(TransferEnds, a_receiver_that_cannot_open_at_the_match_fails_both_sides) {
  receiver.first.open_throws = true;
  const auto to = recv();
  to->start();
  const auto from = send();
  deliver_all();
  EXPECT_EQ(failure_of(to->half), "the fake link cannot open");
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
}

TEST_F(TransferEnds, a_start_that_fails_opens_no_epoch_and_the_next_one_opens_the_same) {
  const auto to = recv();
  const auto from = send();
  const auto fails = [](auto& party, bool& why) {
    const Epoch before = party.half.epoch();
    why = true;
    EXPECT_THROW(party.start(), Error);
    why = false;
    EXPECT_EQ(party.half.epoch(), before);
    EXPECT_FALSE(party.half.active());
    EXPECT_EQ(party.opened, 0);
  };
  deliver_all();
  fails(*to, receiver.first.open_throws);
  fails(*from, sender.first.start_throws);
  from->start();
  EXPECT_FALSE(from->half.receiver_has_started()) << "nothing was promised to it";
  to->start();
  EXPECT_EQ(to->half.epoch(), from->half.epoch());
  EXPECT_EQ(to->opened + from->opened, 2);
  fill(from->buffer, 5);
  from->half.submit({0, 4});
  EXPECT_TRUE(to->half.all_arrived());
  EXPECT_EQ(to->buffer, from->buffer);
}

TEST_F(TransferEnds, a_failure_before_the_match_is_told_at_the_match) {
  for (const bool sender_fails : {true, false}) {
    const auto from = send();
    const auto to = recv();
    from->start();
    to->start();
    Half& failing = sender_fails ? static_cast<Half&>(from->half) : to->half;
    Half& hearing = sender_fails ? static_cast<Half&>(to->half) : from->half;
    failing.fail_on_both_sides("failed", Error(ErrorClass::other, "too early"));
    EXPECT_FALSE(hearing.is_lost());
    deliver_all();
    ASSERT_TRUE(hearing.is_lost()) << sender_fails;
    EXPECT_NE(hearing.why_lost().sentence().find("failed: too early"), std::string::npos);
  }
}

TEST_F(TransferEnds, sides_that_fail_at_once_both_keep_their_own_failure) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  to->start();
  from->half.fail_on_both_sides("failed", Error(ErrorClass::other, "the sender's"));
  to->half.fail_on_both_sides("failed", Error(ErrorClass::other, "the receiver's"));
  EXPECT_EQ(post.size(), 2);
  deliver_all();
  EXPECT_EQ(failure_of(from->half), "the sender's");
  EXPECT_EQ(failure_of(to->half), "the receiver's");
  EXPECT_TRUE(from->half.is_lost());
  EXPECT_TRUE(to->half.is_lost());
}

TEST_F(TransferEnds, an_epoch_that_has_left_completes_after_its_sender_has_failed) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  to->start();
  fill(from->buffer, 4);
  from->half.submit({0, 4});
  ASSERT_TRUE(from->half.all_finished());
  from->half.set_active(false);
  from->half.fail_on_both_sides("failed", Error(ErrorClass::other, "later"));
  deliver_all();
  EXPECT_FALSE(to->half.is_lost());
  EXPECT_TRUE(to->half.all_arrived());
  EXPECT_EQ(to->buffer, from->buffer);
  to->start();
  EXPECT_TRUE(to->half.is_lost()) << "the next one does not";
}

TEST_F(TransferEnds, a_failure_of_a_half_that_is_gone_is_heard_by_nobody) {
  const auto to = recv();
  const auto from = send();
  deliver_all();
  EXPECT_NO_THROW(hand_over({0, 1, write(Failure{to->half.id + 100, 5, 0, {ErrorClass::other, "late"}})}));
  EXPECT_NO_THROW(hand_over({1, 1, write(Failure{to->half.id, 5, 1, {ErrorClass::other, "of another rank"}})}));
  EXPECT_FALSE(to->half.ending.heard());
  EXPECT_THROW(hand_over({1, 1, write(Bye{to->half.id, 5})}), Error) << "none of its";
}

// ---- Freeing ----

TEST_F(TransferEnds, a_receive_that_is_freed_before_its_offer_fails_the_send) {
  auto to = recv();
  free(receiver, to);
  const auto from = send();
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("the receiver, rank 1, freed its request"), std::string::npos)
      << failure_of(from->half);
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(TransferEnds, a_send_that_is_freed_before_its_answer_ends_the_receive) {
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

TEST_F(TransferEnds, a_freed_half_stays_until_its_peer_is_freed_too) {
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

TEST_F(TransferEnds, a_send_that_goes_leaves_the_list_of_active_steps) {
  auto to = recv();
  auto from = send();
  deliver_all();
  from->start();
  from->half.submit({0, 4});  // deferred, so a step is to put it
  to->start();
  EXPECT_TRUE(from->half.flush()) << "by the caller";
  EXPECT_TRUE(to->half.all_arrived());
  ASSERT_TRUE(sender.progress.wanted()) << "the step has nothing left to do, which it finds when it is taken";
  free(receiver, to);
  deliver_all();
  const std::weak_ptr<SendParty> kept = from;
  free(sender, from);
  ASSERT_TRUE(kept.expired());
  EXPECT_FALSE(sender.progress.wanted());
  sender.progress.poll();
}

TEST_F(TransferEnds, nothing_is_submitted_to_a_receiver_that_was_freed) {
  auto to = recv();
  const auto from = send();
  deliver_all();
  from->start();
  free(receiver, to);
  deliver_all();
  EXPECT_THROW(from->half.submit({0, 1}), Error);
  EXPECT_EQ(sender.first.puts, 0);
}

TEST_F(TransferEnds, packed_bytes_apart_go_with_the_half) {
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

TEST_F(TransferEnds, a_send_that_is_freed_when_it_is_asked_for_a_link_fails_the_receive) {
  sender.second.can.costly_to_start = true;
  receiver.first.receiver_refusal = "too full";
  auto from = send();
  auto to = recv();
  ASSERT_TRUE(deliver_to(1));  // the offer; an ask comes back
  free(sender, from);
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("second: the sender has freed its request"), std::string::npos)
      << failure_of(to->half);
  EXPECT_EQ(sender.second.senders, 0) << "the link is not started any more";
  free(receiver, to);
  expect_nothing_left();
}

TEST_F(TransferEnds, a_receive_that_is_freed_when_it_has_asked_for_a_link_fails_the_send) {
  sender.second.can.costly_to_start = true;
  receiver.first.receiver_refusal = "too full";
  auto from = send();
  auto to = recv();
  ASSERT_TRUE(deliver_to(1));
  free(receiver, to);
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("the receiver, rank 1, freed its request"), std::string::npos)
      << failure_of(from->half);
  free(sender, from);
  expect_nothing_left();
}

/// A life of two halves in a random order of all that can happen, both freed in the end.
class RandomLife {
 public:
  explicit RandomLife(Random& random) : random_(random) {}

  std::shared_ptr<SendParty> from;
  std::shared_ptr<RecvParty> to;
  bool send_made = false;
  bool recv_made = false;
  std::int64_t completed = 0;

  bool over() const { return send_made && recv_made && from == nullptr && to == nullptr; }

  void step_of_sender() {
    if (from == nullptr) return;
    if (!from->half.active()) {
      if (from->half.failed() || from->half.given_up()) return;
      from->start();
      completed = 0;
    } else if (completed < from->half.shape().partitions()) {
      const std::int64_t begin =
          std::exchange(completed, random_.between(completed + 1, from->half.shape().partitions()));
      complete({begin, completed});
    } else if (from->half.matched() && from->half.all_finished()) {
      from->half.set_active(false);
    }
  }
  void step_of_receiver() {
    if (to == nullptr) return;
    if (!to->half.active()) {
      if (!to->half.failed()) start_receiver();
    } else if (to->half.matched() && to->half.all_arrived()) {
      to->half.set_active(false);
    }
  }
  /// As an operation ends before it is freed.
  void end_epochs() {
    if (from == nullptr) return;
    if (from->half.active()) {
      from->half.give_up();
      from->half.give_up_epoch();
    }
    from->half.withdraw();
  }

 private:
  /// The link may refuse: then no epoch is open.
  void start_receiver() {
    try {
      to->start();
    } catch (const Error&) {
      EXPECT_FALSE(to->half.active());
    }
  }
  /// The other side may have ended.
  void complete(link::Range partitions) {
    try {
      from->half.complete(partitions);
    } catch (const Error&) {
      EXPECT_TRUE(from->half.failed());
    }
  }

  Random& random_;
};

TEST_F(TransferEnds, freed_at_any_time_nothing_is_left) {
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    sender.first.refusal = random.one_in(6) ? "too far" : "";
    sender.first.connect_throws = random.one_in(8);
    sender.first.put_throws = random.one_in(8);
    sender.second.can.costly_to_start = random.one_in(2);
    receiver.first.receiver_refusal = random.one_in(4) ? "too full" : "";
    receiver.first.open_throws = random.one_in(8);
    HalfTerms sending = terms(Side::send);
    HalfTerms receiving = terms(Side::recv, {random.one_in(2) ? 4 : 1, random.one_in(8) ? 2 * bytes : bytes});
    receiving.link = random.one_in(3) ? "second" : "auto";
    sending.packed_apart = random.one_in(3);
    receiving.packed_apart = random.one_in(3);

    RandomLife life(random);
    std::weak_ptr<SendParty> kept_send;
    std::weak_ptr<RecvParty> kept_recv;
    while (!life.over()) {
      switch (random.integer(0, 9)) {
        case 0:
          if (std::exchange(life.send_made, true)) break;
          life.from = send(sending);
          kept_send = life.from;
          break;
        case 1:
          if (std::exchange(life.recv_made, true)) break;
          life.to = recv(receiving);
          kept_recv = life.to;
          break;
        case 2:
          if (life.from == nullptr || !random.one_in(4)) break;
          life.end_epochs();
          free(sender, life.from);
          break;
        case 3:
          if (life.to == nullptr || !random.one_in(4)) break;
          free(receiver, life.to);
          break;
        case 4:
          sender.progress.poll();
          break;
        case 5:
          deliver_to(0);
          break;
        case 6:
          deliver_to(1);
          break;
        case 7:
          life.step_of_receiver();
          break;
        default:
          life.step_of_sender();
      }
    }
    deliver_all();
    EXPECT_TRUE(kept_send.expired());
    EXPECT_TRUE(kept_recv.expired());
    expect_nothing_left();
    if (HasFailure()) return;
  }
}

/// The steps of a rank that has something to do, by the rank's own thread.
class Postman {
 public:
  explicit Postman(std::function<void()> step)
      : thread_([this, step = std::move(step)] {
          while (!stopping_.load()) {
            step();
            std::this_thread::yield();
          }
        }) {}
  ~Postman() {
    stopping_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// Halves are made, started, used and freed by the threads of two programs, while those that take steps match them.
TEST_F(TransferEnds, threads_of_programs_and_threads_that_take_steps_meet_anywhere) {
  constexpr int rounds = 200;
  const auto until = [](auto condition) {
    while (!condition()) std::this_thread::yield();
  };
  {
    const Postman to_sender([this] {
      const auto exclusive = sender.progress.exclusive();
      deliver_to(0);
      sender.progress.poll();
    });
    const Postman to_receiver([this] {
      const auto exclusive = receiver.progress.exclusive();
      deliver_to(1);
    });
    std::thread program([&] {
      for (int round = 0; round < rounds; ++round) {
        auto from = send();
        fill(from->buffer, round);
        from->start();
        from->half.complete(link::Range{0, 2});
        until([&] { return from->half.matched(); });
        from->half.complete(link::Range{2, 4});
        until([&] { return from->half.all_finished(); });
        free(sender, from);
      }
    });
    std::vector<std::byte> expected(bytes);
    for (int round = 0; round < rounds; ++round) {
      auto to = recv();
      to->start();
      until([&] { return to->half.matched() && to->half.all_arrived(); });
      fill(expected, round);
      EXPECT_EQ(to->buffer, expected) << round;
      free(receiver, to);
    }
    program.join();
    until([this] { return post.empty(); });
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace partita::test
