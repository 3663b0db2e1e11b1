// The list of links, and what a link says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "link/capabilities.hpp"
#include "link/names.hpp"

namespace partita::link {
namespace {

using memory::Kind;

TEST(LinkNames, are_choices_beside_auto) {
  EXPECT_TRUE(is_choice("auto"));
  for (const std::string_view name : names) {
    EXPECT_TRUE(is_choice(name));
    EXPECT_NE(choices().find(name), std::string::npos) << choices();
  }
  EXPECT_EQ(names[0], "direct") << "the best on a node";
}

TEST(LinkNames, leave_nothing_else_to_choose) {
  for (const char* other : {"", "tcp", "MPI", "mpi ", "auto,mpi"}) EXPECT_FALSE(is_choice(other)) << other;
}

TEST(Capabilities, move_host_memory_where_nothing_else_is_said) {
  static constexpr Capabilities plain{.name = "plain"};
  EXPECT_TRUE(plain.moves(Kind::host, Kind::host_exported));
  EXPECT_FALSE(plain.moves(Kind::host, Kind::device));
  EXPECT_FALSE(plain.moves(Kind::device, Kind::host));
  EXPECT_FALSE(plain.moves(Kind::managed, Kind::managed));
}

TEST(Capabilities, move_only_between_the_memories_of_one_row) {
  static constexpr Movement movements[] = {{host_memory, host_memory}, {{Kind::device}, {Kind::device}}};
  static constexpr Capabilities link{.name = "link", .movements = movements};
  EXPECT_TRUE(link.moves(Kind::host, Kind::host));
  EXPECT_TRUE(link.moves(Kind::device, Kind::device));
  EXPECT_FALSE(link.moves(Kind::device, Kind::host_exported));
  EXPECT_FALSE(link.moves(Kind::host, Kind::device));
}

TEST(Capabilities, have_kernels_put_only_where_that_is_said) {
  static constexpr Movement gpus[] = {{{Kind::device}, {Kind::device}}};
  static constexpr Capabilities plain{.name = "plain"};
  static constexpr Capabilities link{.name = "link", .kernel_movements = gpus};
  EXPECT_FALSE(plain.kernels_put(Kind::device, Kind::device));
  EXPECT_TRUE(link.kernels_put(Kind::device, Kind::device));
  EXPECT_FALSE(link.kernels_put(Kind::device, Kind::host));
}

TEST(Capabilities, are_told_in_words) {
  static constexpr Movement movements[] = {{host_memory, host_memory}, {{Kind::host, Kind::device}, {Kind::device}}};
  static constexpr Movement gpus[] = {{{Kind::device}, {Kind::device}}};
  EXPECT_EQ(describe({.name = "plain"}), "moves host to host");
  EXPECT_EQ(describe({.name = "none", .movements = {}}), "is not in this build");
  EXPECT_EQ(describe({.name = "all",
                      .costly_to_start = true,
                      .movements = movements,
                      .kernel_movements = gpus,
                      .host_flags = true}),
            "moves host to host, host or GPU to GPU; kernels put GPU to GPU; flags in host memory tell what has "
            "arrived; starts where it is wanted");
}

TEST(Capabilities, tell_the_smallest_transfer_by_target_and_size) {
  static constexpr SmallestTransfer into_plain[] = {{1 * mib, 64 * kib, 2}, {any_size, 512 * kib}};
  static constexpr Capabilities link{.name = "link", .into_plain = into_plain};
  EXPECT_EQ(link.smallest_transfer(Target::plain, 0), 64 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::plain, 100 * kib), 64 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::plain, 1 * mib), 512 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::plain, 64 * mib), 512 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::mapped, 64 * kib), 16 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::mapped, 1 * mib + 1), 64 * kib);
  EXPECT_EQ(link.smallest_transfer(Target::staged, 64 * kib), 1 * mib);
  EXPECT_EQ(link.smallest_transfer(Target::staged, 8 * mib), 4 * mib);
  EXPECT_EQ(link.smallest_transfer(Target::gpu, 64 * mib), 16 * mib);
}

}  // namespace
}  // namespace partita::link
