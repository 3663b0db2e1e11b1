// From which size on each collective goes by peer memory.
#include "two_sided/peer_sizes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace partita {
namespace {

TEST(PeerSizes, the_table_has_a_line_for_each_collective_in_their_order) {
  ASSERT_FALSE(measured_peer_sizes().empty());
  int next = 0;
  for (const MeasuredPeerSize& line : measured_peer_sizes()) {
    EXPECT_EQ(static_cast<int>(line.collective), next++) << line.name;
    EXPECT_TRUE(std::string(line.name).starts_with("MPI_")) << line.name;
    EXPECT_GE(line.bytes, 4096) << line.name << ": below what was measured";
    EXPECT_FALSE(std::string(line.source).empty()) << line.name;
  }
}

TEST(PeerSizes, each_collective_has_the_one_of_the_table_on_as_many_ranks_as_were_measured) {
  const PeerSizes sizes{0, true};
  for (const MeasuredPeerSize& line : measured_peer_sizes()) {
    for (int ranks = 1; ranks <= 4; ++ranks) EXPECT_EQ(sizes.from_bytes(line.collective, ranks), line.bytes);
  }
}

TEST(PeerSizes, more_ranks_take_more_bytes) {
  const PeerSizes sizes{0, true};
  for (const MeasuredPeerSize& line : measured_peer_sizes()) {
    EXPECT_EQ(sizes.from_bytes(line.collective, 8), 2 * line.bytes);
    EXPECT_EQ(sizes.from_bytes(line.collective, 6), line.bytes * 3 / 2);
    EXPECT_EQ(sizes.from_bytes(line.collective, 64), 16 * line.bytes);
  }
}

TEST(PeerSizes, a_number_of_bytes_is_the_same_for_all) {
  for (const std::int64_t bytes : {0, 1, 5000, 1 << 30}) {
    for (const MeasuredPeerSize& line : measured_peer_sizes())
      EXPECT_EQ((PeerSizes{bytes, false}.from_bytes(line.collective, 8)), bytes);
  }
}

/// Ranks of one job with both: the larger one counts, for each collective.
TEST(PeerSizes, the_larger_of_the_two_counts) {
  const PeerSizes sizes{5000, true};
  EXPECT_EQ(sizes.from_bytes(PeerCollective::Bcast, 2), 5000);
  EXPECT_EQ(sizes.from_bytes(PeerCollective::Bcast, 8), 8192);
  EXPECT_EQ(sizes.from_bytes(PeerCollective::Allreduce, 2), 65536);
}

}  // namespace
}  // namespace partita
