// Legs of collectives that have no bytes: they are matched as all others are, and nothing moves.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/fake_pair.hpp"

namespace partita::test {
namespace {

class EmptyTransfer : public FakePair {
 protected:
  std::shared_ptr<SendParty> send_leg(std::int64_t total_bytes, std::int32_t partitions = 4) {
    return send(terms(Side::send, {partitions, total_bytes}, Space::collective));
  }
  std::shared_ptr<RecvParty> recv_leg(std::int64_t total_bytes, std::int32_t partitions = 4) {
    return recv(terms(Side::recv, {partitions, total_bytes}, Space::collective));
  }
  HalfTerms leg_for(const char* purpose, Side side) {
    HalfTerms made = terms(side, {4, 0}, Space::collective);
    made.purpose = purpose;
    return made;
  }
};

TEST_F(EmptyTransfer, meets_in_its_turn_and_takes_no_link) {
  const auto empty_to = recv_leg(0);
  const auto empty_from = send_leg(0);
  const auto from = send_leg(bytes);
  const auto to = recv_leg(bytes);
  deliver_all();
  EXPECT_TRUE(empty_from->half.matched());
  EXPECT_TRUE(empty_to->half.matched());
  expect_pair(from, to);
  EXPECT_EQ(sender.first.senders, 1);
}

TEST_F(EmptyTransfer, where_one_side_expects_bytes_fails_both_and_is_the_only_one) {
  for (const auto& [sent, received] : {std::pair{std::int64_t{0}, bytes}, std::pair{bytes, std::int64_t{0}}}) {
    const auto from = send_leg(sent);
    const auto to = recv_leg(received);
    const auto next_to = recv_leg(bytes);
    const auto next_from = send_leg(bytes);
    deliver_all();
    EXPECT_NE(failure_of(to->half).find(fmt::format("sends {} bytes", sent)), std::string::npos)
        << failure_of(to->half);
    EXPECT_EQ(failure_of(from->half), failure_of(to->half));
    EXPECT_FALSE(from->half.matched());
    expect_pair(next_from, next_to);
  }
}

TEST_F(EmptyTransfer, of_other_partitions_fails_both) {
  const auto from = send_leg(0, 2);
  const auto to = recv_leg(0, 3);
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("rank 0 has 2, rank 1 has 3"), std::string::npos) << failure_of(to->half);
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
}

TEST_F(EmptyTransfer, made_for_something_else_fails_both_and_is_the_only_one) {
  const auto from = send(leg_for("partitioned bcast", Side::send));
  const auto to = recv(leg_for("persistent bcast", Side::recv));
  const auto next_from = send(leg_for("persistent bcast", Side::send));
  const auto next_to = recv(leg_for("persistent bcast", Side::recv));
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("rank 0 has made a partitioned bcast, rank 1 a persistent bcast"),
            std::string::npos)
      << failure_of(to->half);
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
  EXPECT_TRUE(next_from->half.matched());
  EXPECT_TRUE(next_to->half.matched());
}

/// A free is no mistake: only what a half was made for tells the two apart.
TEST_F(EmptyTransfer, freed_before_its_offer_came_is_remembered_by_what_it_was_for) {
  for (const char* purpose : {"persistent bcast", "persistent reduce"}) {
    auto to = recv(leg_for("persistent bcast", Side::recv));
    free(receiver, to);
    auto from = send(leg_for(purpose, Side::send));
    deliver_all();
    const bool differs = purpose != std::string("persistent bcast");
    EXPECT_EQ(differs, from->half.purposes_differ());
    const std::string words = differs ? "rank 0 has made a persistent reduce, rank 1 a persistent bcast"
                                      : "rank 1, freed its request (persistent bcast, 0 bytes) before";
    EXPECT_NE(failure_of(from->half).find(words), std::string::npos) << failure_of(from->half);
    free(sender, from);
    expect_nothing_left();
  }
}

TEST_F(EmptyTransfer, is_freed_without_a_message) {
  auto from = send_leg(0);
  auto to = recv_leg(0);
  deliver_all();
  free(sender, from);
  free(receiver, to);
  expect_nothing_left();
}

TEST_F(EmptyTransfer, is_freed_before_it_is_matched) {
  auto from = send_leg(0);
  free(sender, from);
  auto to = recv_leg(0);
  deliver_all();
  EXPECT_TRUE(to->half.matched()) << "the two agree that nothing is missing";
  free(receiver, to);
  expect_nothing_left();

  to = recv_leg(0);
  free(receiver, to);
  from = send_leg(0);
  deliver_all();
  EXPECT_NE(failure_of(from->half).find("freed its request"), std::string::npos) << failure_of(from->half);
  free(sender, from);
  expect_nothing_left();
}

/// A request of the program's of no bytes has marks and arrivals, which must travel.
TEST_F(EmptyTransfer, of_the_programs_own_takes_a_link) {
  const auto from = send(0);
  const auto to = recv(0);
  deliver_all();
  expect_pair(from, to);
  EXPECT_EQ(from->half.link_name(), "first");
}

}  // namespace
}  // namespace partita::test
