// Collectives that kernels do, with threads for the blocks of several ranks in one process: contents, every operation,
// bits that do not depend on the grid, the wrap of epochs, and waits that end.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/device_group_contents.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

/// A rank's part of some epochs in its kernel: one thread of the grid writes what is sent and looks at what came.
class RankOfGroup {
 public:
  RankOfGroup(const DeviceGroup& group, std::size_t rank, const GridShape& grid,
              const std::vector<EpochOfGroup>& epochs)
      : group_(group),
        rank_(rank),
        epochs_(epochs),
        turn_(static_cast<std::ptrdiff_t>(grid.blocks) * grid.threads),
        kernel_(grid, [this](unsigned thread) { run(thread); }) {}
  void end() { kernel_.end(); }
  const std::vector<Bytes>& results() const { return results_; }

 private:
  void run(unsigned thread) {
    for (int epoch = 1; epoch <= std::ssize(epochs_); ++epoch) {
      // Late, so that the others are in the call by then, whose barrier waits for this thread, too.
      for (int i = 0; thread == 0 && i < 20; ++i) std::this_thread::yield();
      if (thread == 0) write(epoch);
      for (int i = 0; static_cast<int>(rank_) == group_.shape().slow_rank && i < 300; ++i) std::this_thread::yield();
#if defined(__SANITIZE_THREAD__)
      turn_.arrive_and_wait();  // the sanitizer does not know fences, by which the call orders
#endif
      const int code = group_.call(rank_);
      if (code != PARTITA_DEVICE_SUCCESS) {
        ADD_FAILURE() << "code " << code << " in epoch " << epoch << ": " << text_of(group_.shape());
        turn_.arrive_and_drop();
        return;
      }
      if (thread == 0) check(epoch);
    }
  }
  void write(int epoch) {
    const GroupShape& shape = group_.shape();
    if (shape.collective == PARTITA_COLLECTIVE_BCAST && rank_ != static_cast<std::size_t>(shape.root)) return;
    const Bytes& bytes = of(epoch).sent[rank_];
    std::memcpy(group_.sent(rank_), bytes.data(), bytes.size());
  }
  void check(int epoch) {
    const GroupShape& shape = group_.shape();
    const Bytes& wanted = of(epoch).received[rank_];
    const Bytes got(group_.received(rank_), group_.received(rank_) + wanted.size());
    EXPECT_TRUE(wanted == got) << "rank " << rank_ << " in epoch " << epoch << ": " << text_of(shape);
    results_.push_back(got);
  }
  const EpochOfGroup& of(int epoch) const { return epochs_[static_cast<std::size_t>(epoch - 1)]; }

  const DeviceGroup& group_;
  const std::size_t rank_;
  const std::vector<EpochOfGroup>& epochs_;
  std::vector<Bytes> results_;
  std::barrier<> turn_;
  CpuKernel kernel_;
};

/// All ranks run so many epochs, each with a grid of its own. Gives what each rank received in each epoch.
std::vector<std::vector<Bytes>> run(const GroupShape& shape, const std::vector<GridShape>& grids, int epochs = 3) {
  SCOPED_TRACE(text_of(shape));
  const DeviceGroup group(shape);
  std::vector<EpochOfGroup> all;
  for (int epoch = 1; epoch <= epochs; ++epoch) all.emplace_back(shape, epoch, group.sent_bytes());
  std::vector<std::unique_ptr<RankOfGroup>> ranks;
  for (std::size_t r = 0; r < group.ranks(); ++r) {
    ranks.push_back(std::make_unique<RankOfGroup>(group, r, grids[r % grids.size()], all));
  }
  std::vector<std::vector<Bytes>> results;
  for (const auto& rank : ranks) {
    rank->end();
    results.push_back(rank->results());
  }
  for (std::size_t r = 0; r < group.ranks(); ++r) EXPECT_EQ(group.failure(r), 0U);
  return results;
}

class GridCollectives : public testing::TestWithParam<Way> {};
class GridReductions : public testing::TestWithParam<Way> {};
class GridCollectivesInPlace : public testing::TestWithParam<Way> {};

TEST_P(GridCollectives, move_the_smallest_between_two_ranks_of_one_thread) {
  run(shape_of(GetParam(), 2, 4), {{1, 1}});
  run(shape_of(GetParam(), 1, 40), {{1, 1}});
}

TEST_P(GridCollectives, move_blocks_of_any_size_between_any_ranks_and_grids) {
  // A sanitizer looks at lines of code, not at combinations.
  const auto tried = thread_sanitized ? std::vector{2, 3}
                     : sanitized      ? std::vector{2, 3, 5}
                                      : std::vector{2, 3, 4, 5, 8};
  const auto counts = sanitized ? std::vector<std::size_t>{0, 5, 1023} : std::vector<std::size_t>{0, 1, 5, 64, 1023};
  for (const int ranks : tried) {
    for (const std::size_t count : counts) {
      GroupShape shape = shape_of(GetParam(), ranks, 4 * count);
      run(shape, {{1, 2}});
      if (ranks <= 3) run(shape, {{2, 2}, {1, 1}, {3, 1}});
      shape.misaligned_bytes = count % 3 * 4;
      run(shape, {{1, 1}});
    }
  }
}

/// Also where a unit has words of 4 or 8 bytes, or of none.
TEST_P(GridCollectives, take_buffers_that_lie_differently_on_each_rank) {
  for (const std::size_t more : {1, 2, 4, 8, 16}) {
    GroupShape shape = shape_of(GetParam(), 3, 8 * 301);
    shape.element = device::Element::u8;
    shape.by = device::Combine::bxor;
    shape.more_misaligned_bytes = more;
    run(shape, {{1, 2}, {2, 1}}, 2);
    shape.block_bytes = 1001;
    run(shape, {{1, 2}}, 2);
  }
}

/// Elements of a byte, so that a unit has any length. Whole words of a shorter one go at once where they lie so.
TEST_P(GridCollectives, move_any_number_of_bytes) {
  constexpr std::pair<std::size_t, std::size_t> sizes_and_places[] = {{1, 0},  {2, 1},  {4, 4},  {8, 0},
                                                                      {12, 4}, {15, 0}, {33, 0}, {36, 1}};
  for (const auto& [bytes, behind] : sizes_and_places) {
    GroupShape shape = shape_of(GetParam(), 2, bytes);
    shape.element = device::Element::u8;
    shape.by = device::Combine::bxor;
    shape.misaligned_bytes = behind;
    run(shape, {{1, 2}, {1, 1}}, 2);
  }
}

/// More threads than a strip has units, a multiple of that and others: of some strips, and of less than one.
TEST_P(GridCollectives, take_blocks_of_more_threads_than_a_strip_has_units) {
  constexpr std::size_t strip = std::size_t{device::most_share_units} * device::unit_size_bytes;
  const auto threads = sanitized ? std::vector<unsigned>{260} : std::vector<unsigned>{256, 300, 512, 530};
  for (const unsigned each : threads) run(shape_of(GetParam(), 2, 3 * strip + 36), {{1, each}, {1, 2}}, 2);
  run(shape_of(GetParam(), 2, 36), {{1, threads.back()}, {1, 2}}, 2);
}

TEST_P(GridCollectives, have_strips_left_over_and_blocks_left_over) {
  run(shape_of(GetParam(), 3, std::size_t{7} * device::most_share_units * device::unit_size_bytes + 20),
      {{2, 1}, {1, 2}, {9, 1}});
  run(shape_of(GetParam(), 2, 64), {{4, 1}, {1, 1}}, 20);
}

TEST_P(GridCollectives, go_in_rounds_where_the_slots_do_not_take_all) {
  constexpr std::size_t slots = std::size_t{device::most_strips} * device::most_share_units * device::unit_size_bytes;
  run(shape_of(GetParam(), 2, 2 * slots + 4), {{2, 2}, {1, 1}}, 2);
}

/// The others have sent, or have told that they have begun, long before it comes.
TEST_P(GridCollectives, wait_for_a_slow_rank) {
  for (int slow = 0; slow < 3; ++slow) {
    GroupShape shape = shape_of(GetParam(), 3, 6000);
    shape.slow_rank = slow;
    run(shape, {{2, 1}, {1, 2}}, 6);
  }
}

TEST_P(GridCollectives, take_each_root) {
  for (int root = 0; root < 4; ++root) {
    GroupShape shape = shape_of(GetParam(), 4, 5000);
    shape.root = root;
    run(shape, {{1, 2}, {2, 1}}, 2);
  }
}

TEST_P(GridCollectivesInPlace, find_each_rank_its_data_in_the_receive_buffer) {
  for (const std::size_t bytes : {4, 100, 8192, 8196}) {
    GroupShape shape = shape_of(GetParam(), 3, bytes);
    shape.in_place = true;
    run(shape, {{2, 2}, {1, 1}});
  }
}

TEST_P(GridCollectives, cross_the_wrap_of_epochs) {
  for (Epoch before = 0xfffffffa; before != 2; before = next(before)) {
    GroupShape shape = shape_of(GetParam(), 2, 52);
    shape.before = before;
    run(shape, {{1, 1}}, 6);
  }
  GroupShape shape = shape_of(GetParam(), 2, 300000);
  shape.before = 0xfffffffb;
  run(shape, {{1, 1}}, 4);
}

TEST_P(GridCollectives, start_at_any_epoch) {
  for (const Epoch before : {0x7ffffffdU, 0x80000000U, 77U}) {
    GroupShape shape = shape_of(GetParam(), 2, 100);
    shape.before = before;
    run(shape, {{1, 1}}, 5);
  }
}

/// Rank 1 never calls, but the packets of one of its two units are there: the thread that finds them must not complete
/// the epoch which the other one waits for in vain.
TEST(GridCollectiveFailures, leave_an_epoch_open_that_one_thread_of_a_block_has_waited_for_in_vain) {
  for (const partita_u32 there : {0U, 1U}) {
    GroupShape shape = shape_of({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_ALGORITHM_PACKETS}, 2, 32);
    shape.limit_ns = 2'000'000;
    shape.before = 6;
    const DeviceGroup group(shape);
    const Partita_Prequest& request = group.request(0);
    const Epoch flag = next(shape.before);
    unsigned char* const slot =
        device::area_of(request, 1) + device::slots_at(request, 0, flag) + there * device::area_slot_bytes;
    device::send_unit(slot, device::Unit{7, 8}, flag);
    CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(group.call(0), PARTITA_DEVICE_ERR_TIMEOUT); });
    kernel.end();
    EXPECT_EQ(request.state->completed, shape.before);
    EXPECT_EQ(device::low_half(request.state->head), flag) << "what the host takes for lost";
    EXPECT_EQ(group.failure(0), partita_u32{PARTITA_DEVICE_ERR_TIMEOUT});
    EXPECT_EQ(request.host->failure_epoch, flag);
    EXPECT_EQ(group.call(0), PARTITA_DEVICE_ERR_ABORTED);
    EXPECT_EQ(request.state->completed, shape.before);
  }
}

/// In a call of several blocks, too, of which one has nothing to wait for.
TEST(GridCollectiveFailures, leave_an_epoch_open_that_one_block_has_waited_for_in_vain) {
  for (const partita_u32 algorithm : {PARTITA_ALGORITHM_PACKETS, PARTITA_ALGORITHM_BUFFERS}) {
    GroupShape shape = shape_of({PARTITA_COLLECTIVE_ALLREDUCE, algorithm}, 2, 32);
    shape.limit_ns = 2'000'000;
    const DeviceGroup group(shape);
    const Partita_Prequest& request = group.request(0);
    CpuKernel kernel({3, 2}, [&](unsigned) { EXPECT_NE(group.call(0), PARTITA_DEVICE_SUCCESS); });
    kernel.end();
    EXPECT_EQ(request.state->completed, shape.before);
    EXPECT_EQ(group.failure(0), partita_u32{PARTITA_DEVICE_ERR_TIMEOUT});
    EXPECT_EQ(group.call(0), PARTITA_DEVICE_ERR_ABORTED);
  }
}

/// What is behind it may be another request's.
TEST(GridCollectiveFailures, leave_the_words_of_a_freed_request_alone) {
  for (const std::size_t bytes : {0, 32}) {
    for (const unsigned blocks : {1U, 2U}) {
      const DeviceGroup group(shape_of({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_ALGORITHM_PACKETS}, 2, bytes));
      Partita_Prequest_state& state = *group.request(0).state;
      state.live += 2;
      const Partita_Prequest_state before = state;
      CpuKernel kernel({blocks, 2}, [&](unsigned) { EXPECT_EQ(group.call(0), PARTITA_DEVICE_ERR_FREED); });
      kernel.end();
      EXPECT_EQ(std::memcmp(&state, &before, sizeof state), 0);
      EXPECT_EQ(group.failure(0), 0U);
    }
  }
}

TEST_P(GridReductions, give_the_same_bits_in_packets_and_in_buffers) {
  GroupShape shape = shape_of(GetParam(), 5, 4 * 999);
  const auto one = run(shape, {{1, 2}}, 2);
  shape.algorithm = PARTITA_ALGORITHM_PACKETS;
  EXPECT_EQ(one, run(shape, {{1, 2}}, 2));
}

TEST_P(GridReductions, give_the_same_bits_on_all_ranks_and_in_all_grids) {
  GroupShape shape = shape_of(GetParam(), 4, 20004);
  const auto one = run(shape, {{1, 1}}, 2);
  EXPECT_EQ(one, run(shape, {{3, 2}}, 2));
  EXPECT_EQ(one, run(shape, {{1, 3}, {2, 1}}, 2));
  if (GetParam().collective != PARTITA_COLLECTIVE_ALLREDUCE) return;
  for (std::size_t r = 1; r < one.size(); ++r) EXPECT_EQ(one[0], one[r]);
}

/// Those that do not go together are not asked for.
bool goes_with(Combine by, Element element) {
  const bool is_integer = element <= Element::u64;
  switch (element) {
    case Element::complex_f32:
    case Element::complex_f64:
      return by == Combine::sum || by == Combine::prod;
    case Element::pair_f32_i32:
    case Element::pair_i32:
    case Element::pair_f32:
    case Element::pair_f64:
      return by == Combine::minloc || by == Combine::maxloc;
    default:
      return is_integer ? by <= Combine::bxor : by <= Combine::max;
  }
}

TEST_P(GridReductions, take_every_element_by_every_operation_that_goes_with_it) {
  int pairs = 0;
  for (int element = 0; element <= static_cast<int>(Element::bf16); ++element) {
    for (int by = 0; by <= static_cast<int>(Combine::maxloc); ++by) {
      GroupShape shape = shape_of(GetParam(), 3, 0);
      shape.element = static_cast<Element>(element);
      shape.by = static_cast<Combine>(by);
      if (!goes_with(shape.by, shape.element)) continue;
      ++pairs;
      shape.block_bytes = 37 * bytes_of(shape.element);
      run(shape, {{1, 1}}, 1);
    }
  }
  EXPECT_EQ(pairs, 8 * 10 + 2 * 4 + 2 * 2 + 4 * 2 + 2 * 4);
}

INSTANTIATE_TEST_SUITE_P(All, GridCollectives, testing::ValuesIn(every_way()), name_of_way);
INSTANTIATE_TEST_SUITE_P(All, GridCollectivesInPlace,
                         testing::ValuesIn(ways_of({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_ALLGATHER,
                                                    PARTITA_COLLECTIVE_REDUCE_SCATTER, PARTITA_COLLECTIVE_ALLTOALL})),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(All, GridReductions,
                         testing::ValuesIn(ways_of({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_REDUCE_SCATTER})),
                         name_of_way);

}  // namespace
}  // namespace partita::test
