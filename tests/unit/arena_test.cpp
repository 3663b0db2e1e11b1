#include "memory/arena.hpp"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <random>

#include "support/allocations.hpp"

namespace partita::memory {
namespace {

TEST(Arena, gives_pieces_that_do_not_overlap_and_merges_what_is_freed) {
  constexpr std::size_t size = std::size_t{1} << 20;
  Arena arena(size);
  std::map<std::size_t, std::size_t> live;
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    if (live.size() < 100 && random() % 3 != 0) {
      const std::size_t wanted = random() % 9000;
      const auto offset = arena.allocate(wanted);
      if (!offset) continue;
      EXPECT_EQ(*offset % (wanted < Arena::page_bytes ? Arena::line_bytes : Arena::page_bytes), 0U);
      const std::size_t got = arena.allocated_at(*offset);
      EXPECT_GE(got, wanted);
      EXPECT_LE(*offset + got, size);
      const auto after = live.lower_bound(*offset);
      if (after != live.end()) {
        EXPECT_LE(*offset + got, after->first);
      }
      if (after != live.begin()) {
        EXPECT_LE(std::prev(after)->first + std::prev(after)->second, *offset);
      }
      live.emplace(*offset, got);
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      arena.free(victim->first);
      EXPECT_EQ(arena.allocated_at(victim->first), 0U);
      live.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : live) arena.free(offset);
  EXPECT_TRUE(arena.empty());
  EXPECT_EQ(arena.free_ranges(), 1U);
  EXPECT_EQ(arena.allocate(size), std::optional<std::size_t>(0));
  EXPECT_EQ(arena.allocate(1), std::nullopt);
}

TEST(Arena, takes_no_memory_to_free_and_is_as_before_where_an_allocation_has_none) {
  Arena arena(1 << 16);
  const auto small = arena.allocate(64), large = arena.allocate(5000), last = arena.allocate(64);
  test::fail_allocations(1, 1000);
  arena.free(*large);
  arena.free(*small);
  test::end_failing();
  for (long which = 1; which <= 2; ++which) {
    test::fail_allocations(which);
    EXPECT_THROW(arena.allocate(4096), std::bad_alloc);  // in a page of its own: a piece before it and one behind
    test::end_failing();
  }
  EXPECT_EQ(arena.allocate(4096), std::optional<std::size_t>(4096));
  arena.free(4096);
  arena.free(*last);
  EXPECT_TRUE(arena.empty());
  EXPECT_EQ(arena.free_ranges(), 1U);
}

}  // namespace
}  // namespace partita::memory
