// A sender's rank and a receiver's, both in this process, and what tests of transfers do with them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_transfer.hpp"
#include "support/party.hpp"

namespace partita::test {

class FakePair : public testing::Test {
 protected:
  static constexpr int tag = 7;
  static constexpr std::int64_t bytes = 1024;

  /// A transport partition for each of the sender's.
  HalfTerms terms(Side side, link::Partitioning partitioning = {4, bytes}, Space space = Space::point_to_point) {
    HalfTerms terms;
    terms.side = side;
    terms.peer = side == Side::send ? 1 : 0;
    terms.space = space;
    terms.communicator = (side == Side::send ? sender : receiver).communicator;
    terms.tag = tag;
    terms.shape = {std::move(partitioning), 0, 0};
    terms.shape.wished_transport_partitions = terms.shape.partitions();
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
    return send(terms(Side::send, {partitions, total_bytes}));
  }
  std::shared_ptr<RecvParty> recv(std::int64_t total_bytes = bytes, std::int32_t partitions = 4) {
    return recv(terms(Side::recv, {partitions, total_bytes}));
  }
  std::shared_ptr<SendParty> send_in(Space space) { return send(terms(Side::send, {4, bytes}, space)); }
  std::shared_ptr<RecvParty> recv_in(Space space) { return recv(terms(Side::recv, {4, bytes}, space)); }

  void hand_over(const Letter& letter) { (letter.to == 0 ? sender : receiver).mail.take(letter); }
  /// Delivers the letter before which there are `older` ones.
  void deliver(std::size_t older) { hand_over(post.take(older)); }
  /// Delivers the oldest letter to `rank`; false if there is none.
  bool deliver_to(int rank) {
    const auto letter = post.take_to(rank);
    if (letter) hand_over(*letter);
    return letter.has_value();
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
  /// The two are matched, and with each other.
  static void expect_pair(const std::shared_ptr<SendParty>& from, const std::shared_ptr<RecvParty>& to) {
    ASSERT_TRUE(from->half.matched());
    ASSERT_TRUE(to->half.matched());
    EXPECT_EQ(from->half.peer_id, to->half.id);
    EXPECT_EQ(to->half.peer_id, from->half.id);
    EXPECT_EQ(from->matches, 1);
    EXPECT_EQ(to->matches, 1);
  }
  /// Nothing is left of any transfer: no step is wanted, no letter under way, no memory kept.
  void expect_nothing_left() {
    EXPECT_TRUE(post.empty());
    for (const FakeRank* at : {&sender, &receiver}) {
      EXPECT_FALSE(at->progress.wanted()) << "rank " << at->rank;
      EXPECT_EQ(at->blocks.live, 0) << "rank " << at->rank;
    }
  }

  Post post;
  FakeRank sender{post, 0};
  FakeRank receiver{post, 1};
};

}  // namespace partita::test
