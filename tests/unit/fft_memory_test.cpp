// How much memory a run of the app fft takes, and which GPU has too little of it.
#include "apps/fft/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "apps/fft/hops.hpp"

namespace fft {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::array<char, 16> one{'1'}, other{'2'};

TEST(FftMemory, is_counted_in_bytes_with_what_comes_beside_the_cells) {
  EXPECT_EQ(bytes_of(0), 0);
  EXPECT_EQ(bytes_of(3), 48);
  EXPECT_EQ(bytes_of(3, 5), 53);
}

TEST(FftMemory, is_the_largest_number_where_it_cannot_be_counted) {
  constexpr std::int64_t most_cells = largest / 16;
  EXPECT_EQ(bytes_of(most_cells), most_cells * 16);
  EXPECT_EQ(bytes_of(most_cells, 15), largest);
  EXPECT_EQ(bytes_of(most_cells, 16), largest);
  EXPECT_EQ(bytes_of(most_cells, largest), largest);
  EXPECT_EQ(bytes_of(most_cells + 1), largest);
  EXPECT_EQ(bytes_of(largest, largest), largest);
}

/// The largest sides that the app takes.
TEST(FftMemory, of_the_largest_grid_can_be_asked_for) {
  constexpr std::int64_t side = std::int64_t{1} << 20;
  for (const Spacing spacing : {Spacing::equal, Spacing::exact, Spacing::slices}) {
    const Room room = room_for(hops_of({{side, side, side}, Decomposition::slab, 8}, 1, 0, spacing).all);
    EXPECT_EQ(bytes_of(room.all()), largest);
  }
}

TEST(FftGpuMemory, is_enough_where_it_just_fits) {
  EXPECT_EQ(shortage_of({}), std::nullopt);
  EXPECT_EQ(shortage_of({{one, 100, 100}}), std::nullopt);
  EXPECT_EQ(shortage_of({{one, 0, 0}}), std::nullopt);
  EXPECT_EQ(shortage_of({{one, 101, 100}}), (Shortage{101, 100}));
}

TEST(FftGpuMemory, is_shared_by_the_ranks_of_a_gpu) {
  EXPECT_EQ(shortage_of({{one, 60, 100}, {other, 60, 100}}), std::nullopt);
  EXPECT_EQ(shortage_of({{one, 60, 100}, {one, 60, 100}}), (Shortage{120, 100}));
  EXPECT_EQ(shortage_of({{one, 60, 100}, {other, 10, 100}, {one, 40, 100}}), std::nullopt);
}

TEST(FftGpuMemory, is_what_the_rank_found_that_found_least) {
  EXPECT_EQ(shortage_of({{one, 40, 100}, {one, 40, 70}}), (Shortage{80, 70}));
  EXPECT_EQ(shortage_of({{one, 40, 70}, {one, 40, 100}}), (Shortage{80, 70}));
}

TEST(FftGpuMemory, is_told_of_the_gpu_that_lacks_most) {
  EXPECT_EQ(shortage_of({{one, 120, 100}, {other, 150, 100}}), (Shortage{150, 100}));
  EXPECT_EQ(shortage_of({{one, 150, 100}, {other, 120, 100}}), (Shortage{150, 100}));
}

TEST(FftGpuMemory, is_too_little_for_what_cannot_be_counted) {
  EXPECT_EQ(shortage_of({{one, largest, 100}, {one, largest, 100}}), (Shortage{largest, 100}));
}

}  // namespace
}  // namespace fft
