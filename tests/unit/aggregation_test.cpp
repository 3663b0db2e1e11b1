// In how many parts a request leaves and arrives, and in how many transfers where all of it is complete together.
#include "transfer/aggregation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace partita::test {
namespace {

SideShape even(std::int32_t partitions, std::int64_t partition_bytes, std::int32_t wish = 0) {
  return {link::Partitioning(partitions, partitions * partition_bytes), wish, 0};
}

std::int32_t chosen(const SideShape& sender) {
  return choose_transport_partitions(sender, even(1, sender.total_bytes()));
}

TEST(Aggregation, partitions_from_1_KiB_leave_alone) {
  for (const std::int64_t partition_bytes : {1024, 1025, 64 * 1024}) {
    for (const std::int32_t partitions : {1, 2, 8, 100}) {
      EXPECT_EQ(chosen(even(partitions, partition_bytes)), partitions) << partition_bytes;
    }
  }
}

TEST(Aggregation, smaller_ones_share_up_to_4_KiB) {
  EXPECT_EQ(chosen(even(8, 0)), 1);
  EXPECT_EQ(chosen(even(8, 128)), 1);
  EXPECT_EQ(chosen(even(8, 512)), 1);
  EXPECT_EQ(chosen(even(8, 513)), 2);
  EXPECT_EQ(chosen(even(8, 1023)), 2);
  EXPECT_EQ(chosen(even(16, 512)), 2);
  EXPECT_EQ(chosen(even(128, 512)), 16);
  EXPECT_EQ(chosen(even(1000, 8)), 2);
}

TEST(Aggregation, of_different_sizes_the_mean_counts) {
  const auto shape = [](const std::vector<std::int64_t>& sizes) { return SideShape{link::Partitioning(sizes), 0, 0}; };
  EXPECT_EQ(chosen(shape({0, 4096, 0, 4096})), 4);
  EXPECT_EQ(chosen(shape({0, 2048, 0, 2000})), 1);
  EXPECT_EQ(chosen(shape({0, 0})), 1);
}

TEST(Aggregation, a_wish_counts_and_the_smaller_of_two) {
  EXPECT_EQ(choose_transport_partitions(even(8, 16, 8), even(4, 32)), 8);
  EXPECT_EQ(choose_transport_partitions(even(8, 16, 8), even(4, 32, 3)), 3);
  EXPECT_EQ(choose_transport_partitions(even(8, 16), even(4, 32, 20)), 8);
}

TEST(Aggregation, what_is_complete_together_takes_as_few_transfers_as_the_link_would_have) {
  const SideShape sender = even(64, 4096);
  const SideShape receiver = even(1, 64 * 4096);
  EXPECT_EQ(choose_transfers(sender, receiver, 64, 16 * 1024), 16);
  EXPECT_EQ(choose_transfers(sender, receiver, 64, 1), 64);
  EXPECT_EQ(choose_transfers(sender, receiver, 64, 1024 * 1024), 1);
  EXPECT_EQ(choose_transfers(even(64, 4096, 32), receiver, 32, 1024 * 1024), 32);
}

}  // namespace
}  // namespace partita::test
