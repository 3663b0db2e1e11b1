#include "memory/arena.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

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

}  // namespace
}  // namespace partita::memory
