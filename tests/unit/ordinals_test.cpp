// The places of requests in the order of their tags, counted as a std::map would, in a fraction of its memory.
#include "transfer/ordinals.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <tuple>

namespace partita::test {
namespace {

constexpr int largest = std::numeric_limits<int>::max();

TEST(Ordinals, each_direction_peer_and_tag_counts_for_itself) {
  Ordinals ordinals;
  for (std::uint32_t expected : {0u, 1u, 2u}) {
    for (const bool send : {false, true}) {
      for (const int peer : {-1, 0, 1, largest - 1}) {
        for (const int tag : {0, 1, largest}) EXPECT_EQ(ordinals.draw(send, peer, tag), expected) << peer << " " << tag;
      }
    }
  }
}

TEST(Ordinals, the_newest_can_be_given_back) {
  Ordinals ordinals;
  ordinals.give_back(true, 0, 5, 0);  // of a tag that nobody has drawn for
  EXPECT_EQ(ordinals.draw(true, 0, 5), 0u);
  ordinals.give_back(true, 0, 5, 0);
  EXPECT_EQ(ordinals.draw(true, 0, 5), 0u);
  EXPECT_EQ(ordinals.draw(true, 0, 5), 1u);
  ordinals.give_back(true, 0, 5, 0);  // no longer the newest
  EXPECT_EQ(ordinals.draw(true, 0, 5), 2u);
}

TEST(Ordinals, any_draws_count_as_in_a_map) {
  std::mt19937 random(20261124);
  Ordinals ordinals;
  std::map<std::tuple<bool, int, int>, std::uint32_t> oracle;
  for (int round = 0; round < 200'000; ++round) {
    const bool send = random() % 2 == 0;
    const int peer = static_cast<int>(random() % 7);
    const int tag = static_cast<int>(random() % 3000) * (peer % 2 == 0 ? 1 : 700'001);
    std::uint32_t& next = oracle[{send, peer, tag}];
    if (random() % 4 == 0 && next > 0) {
      ordinals.give_back(send, peer, tag, --next);
    } else {
      ASSERT_EQ(ordinals.draw(send, peer, tag), next++) << "in round " << round;
    }
  }
}

TEST(Ordinals, a_tag_takes_24_bytes_at_most) {
  Ordinals ordinals;
  for (int tag = 0; tag < 200'000; ++tag) {
    ordinals.draw(true, 1, tag);
    if (tag < 100) continue;
    ASSERT_LE(ordinals.size_bytes(), 24u * (static_cast<std::size_t>(tag) + 1)) << tag;
  }
}

}  // namespace
}  // namespace partita::test
