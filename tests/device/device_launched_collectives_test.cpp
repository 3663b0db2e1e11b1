// Collectives as launches that do nothing else: no block waits for another one of its own rank.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "memory/collective_bodies.cuh"
#include "support/device_group_contents.hpp"

namespace partita::test {
namespace {

memory::DoCollective launch_of(const DeviceGroup& group, std::size_t rank) {
  return {group.request(rank)};
}

/// A launch on a GPU with room for one block at a time. What its blocks give, in their order.
std::vector<int> launch_block_by_block(const DeviceGroup& group, std::size_t rank, const GridShape& grid) {
  std::vector<int> codes(grid.blocks);
  for (partita_u32 b = 0; b < grid.blocks; ++b) {
    device::CpuBlock block(grid.threads);
    std::vector<std::thread> threads;
    for (partita_u32 t = 0; t < grid.threads; ++t) {
      threads.emplace_back([&, t] {
        const device::CpuBlockThread self(block, t, {b, grid.blocks});
        const int code = memory::do_collective(launch_of(group, rank));
        if (t == 0) codes[b] = code;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return codes;
}

void launch_at_once(const DeviceGroup& group, std::size_t rank, const GridShape& grid) {
  CpuKernel kernel(grid, [&](unsigned) {
    const int code = memory::do_collective(launch_of(group, rank));
    EXPECT_EQ(code, PARTITA_DEVICE_SUCCESS) << text_of(group.shape());
  });
  kernel.end();
}

/// All ranks make so many launches, one after the other, each by `launch(group, rank)`.
template <class Launch>
void run(const GroupShape& shape, int epochs, const Launch& launch) {
  SCOPED_TRACE(text_of(shape));
  const DeviceGroup group(shape);
  std::vector<EpochOfGroup> all;
  for (int epoch = 1; epoch <= epochs; ++epoch) all.emplace_back(shape, epoch, group.sent_bytes());
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < group.ranks(); ++r) {
    ranks.emplace_back([&, r] {
      for (int epoch = 1; epoch <= epochs; ++epoch) {
        const EpochOfGroup& of = all[static_cast<std::size_t>(epoch - 1)];
        const bool sends = shape.collective != PARTITA_COLLECTIVE_BCAST || r == static_cast<std::size_t>(shape.root);
        if (sends) std::memcpy(group.sent(r), of.sent[r].data(), of.sent[r].size());
        launch(group, r);
        const Bytes got(group.received(r), group.received(r) + of.received[r].size());
        EXPECT_TRUE(got == of.received[r]) << "rank " << r << " in epoch " << epoch;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t r = 0; r < group.ranks(); ++r) {
    const Partita_Prequest_state& state = *group.request(r).state;
    Epoch completed = shape.before;
    for (int epoch = 0; epoch < epochs; ++epoch) completed = next(completed);
    EXPECT_EQ(state.completed, completed);
    EXPECT_EQ(device::low_half(state.head), completed);
    EXPECT_EQ(state.decided & ~device::barrier_bit, 0U);
    EXPECT_EQ(group.failure(r), 0U);
  }
}

class LaunchedCollectives : public testing::TestWithParam<Way> {};

constexpr std::size_t strip_bytes = std::size_t{device::most_share_units} * device::unit_size_bytes;

TEST_P(LaunchedCollectives, need_no_two_blocks_of_a_rank_at_once) {
  const GridShape grid{3, 2};
  const auto block_by_block = [&](const DeviceGroup& group, std::size_t rank) {
    for (const int code : launch_block_by_block(group, rank, grid)) EXPECT_EQ(code, PARTITA_DEVICE_SUCCESS);
  };
  for (const std::size_t bytes : {std::size_t{4}, 7 * strip_bytes + 20}) {
    run(shape_of(GetParam(), 3, bytes), 4, block_by_block);
  }
}

TEST_P(LaunchedCollectives, take_grids_that_differ_between_ranks) {
  const std::vector<GridShape> grids = {{2, 2}, {1, 3}, {9, 1}};
  run(shape_of(GetParam(), 3, 8 * strip_bytes + 4), 3,
      [&](const DeviceGroup& group, std::size_t rank) { launch_at_once(group, rank, grids[rank]); });
}

TEST_P(LaunchedCollectives, take_turns_with_calls_in_kernels) {
  GroupShape shape = shape_of(GetParam(), 2, 2 * strip_bytes);
  shape.before = 0xfffffffc;
  run(shape, 8, [](const DeviceGroup& group, std::size_t rank) {
    if (group.request(rank).state->completed % 2 == 0) return launch_at_once(group, rank, {2, 2});
    CpuKernel kernel({2, 2}, [&](unsigned) { EXPECT_EQ(group.call(rank), PARTITA_DEVICE_SUCCESS); });
    kernel.end();
  });
}

/// Rank 1 never comes; the last block of rank 0 has nothing to wait for.
TEST(LaunchedCollectiveFailures, leave_an_epoch_open_that_one_block_has_waited_for_in_vain) {
  for (const partita_u32 algorithm :
       {PARTITA_ALGORITHM_PACKETS, PARTITA_ALGORITHM_BUFFERS, PARTITA_ALGORITHM_TWO_SHOT}) {
    GroupShape shape = shape_of({PARTITA_COLLECTIVE_ALLREDUCE, algorithm}, 2, 256);
    shape.limit_ns = 2'000'000;
    const DeviceGroup group(shape);
    const Partita_Prequest& request = group.request(0);
    const std::vector<int> codes = launch_block_by_block(group, 0, {3, 2});
    EXPECT_EQ(codes[0], PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(request.state->completed, shape.before);
    EXPECT_EQ(group.failure(0), partita_u32{PARTITA_DEVICE_ERR_TIMEOUT});
    EXPECT_EQ(memory::do_collective(launch_of(group, 0)), PARTITA_DEVICE_ERR_ABORTED);
    EXPECT_EQ(request.state->completed, shape.before);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LaunchedCollectives, testing::ValuesIn(every_way()), name_of_way);

}  // namespace
}  // namespace partita::test
