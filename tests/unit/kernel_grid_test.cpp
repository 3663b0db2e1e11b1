// The grid that is chosen for a collective in kernels.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "collective/kernel_grid.hpp"

namespace partita::test {
namespace {

using collective::kernel_grid_for;
using collective::KernelGrid;
using collective::launched_grid_for;

constexpr int most_threads = 512;

TEST(KernelGrid, has_one_block_with_a_thread_for_each_unit_of_small_data) {
  for (const auto& [bytes, threads] : {std::pair{0, 32}, {1, 32}, {512, 32}, {513, 64}, {4096, 256}, {8192, 512}}) {
    const KernelGrid grid = kernel_grid_for(bytes, 2, most_threads);
    EXPECT_EQ(grid.blocks, 1) << bytes;
    EXPECT_EQ(grid.threads, threads) << bytes;
  }
}

TEST(KernelGrid, has_one_block_of_what_fits_in_a_strip_whatever_the_ranks) {
  for (const int ranks : {1, 2, 4, 8}) EXPECT_EQ(kernel_grid_for(4096, ranks, most_threads).blocks, 1) << ranks;
}

TEST(KernelGrid, has_several_blocks_the_sooner_the_more_ranks_send) {
  for (const int ranks : {2, 3, 5, 7}) {
    const std::int64_t most = collective::most_bytes_of_one_block / (ranks - 1);
    EXPECT_EQ(kernel_grid_for(most, ranks, most_threads).blocks, 1) << ranks;
    const KernelGrid more = kernel_grid_for(most + 1, ranks, most_threads);
    EXPECT_EQ(more.blocks, (most + 4096) / 4096) << ranks;
    EXPECT_EQ(more.threads, 256) << ranks;
  }
}

TEST(KernelGrid, leaves_room_for_others) {
  EXPECT_EQ(kernel_grid_for(std::int64_t{1} << 40, 2, most_threads).blocks, collective::most_kernel_blocks);
  EXPECT_EQ(kernel_grid_for(8192, 2, 128).threads, 128);
}

TEST(LaunchedGrid, has_a_block_for_each_strip) {
  for (const auto& [bytes, blocks, threads] :
       {std::tuple{0, 1, 32}, {16, 1, 32}, {513, 1, 64}, {4096, 1, 256}, {4097, 2, 256}, {65536, 16, 256}}) {
    const KernelGrid grid = launched_grid_for(bytes, most_threads);
    EXPECT_EQ(grid.blocks, blocks) << bytes;
    EXPECT_EQ(grid.threads, threads) << bytes;
  }
  EXPECT_EQ(launched_grid_for(std::int64_t{1} << 40, most_threads).blocks, collective::most_kernel_blocks);
}

}  // namespace
}  // namespace partita::test
