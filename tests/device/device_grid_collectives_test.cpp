// Collectives that kernels do, with threads for the blocks of several ranks in one process: contents, every operation,
// bits that do not depend on the grid, the wrap of epochs, and waits that end.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/reduce_bodies.cuh"
#include "support/device_group.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

using device::Combine;
using device::Element;
using Bytes = std::vector<unsigned char>;

constexpr const char* collective_names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};

/// What rank `rank` sends in `epoch`: any bytes, but for floats such that are numbers and not too far apart.
Bytes contents(const GroupShape& shape, std::size_t rank, int epoch, std::size_t size_bytes) {
  std::minstd_rand random(static_cast<unsigned>(1000 * epoch) + static_cast<unsigned>(rank) + 1);
  Bytes bytes(size_bytes);
  const auto fill = [&](auto value) {
    using T = decltype(value);
    for (std::size_t at = 0; at + sizeof(T) <= size_bytes; at += sizeof(T)) {
      const auto drawn = static_cast<unsigned>(random()) >> 8;
      const T number = static_cast<T>(static_cast<int>(drawn % 65) - 32) / static_cast<T>(1 + drawn / 65 % 7);
      std::memcpy(&bytes[at], &number, sizeof(T));
    }
  };
  switch (shape.element) {
    case Element::f32:
    case Element::complex_f32:
    case Element::pair_f32:
      fill(float{});
      return bytes;
    case Element::f64:
    case Element::complex_f64:
    case Element::pair_f64:
      fill(double{});
      return bytes;
    default:
      break;
  }
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random() >> 8);
  if (shape.element == Element::f16 || shape.element == Element::bf16) {
    for (std::size_t at = 1; at < size_bytes; at += 2) bytes[at] = static_cast<unsigned char>(0x38 | bytes[at] % 9);
  }
  return bytes;
}

std::size_t bytes_of(Element element) {
  constexpr std::size_t bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 8, 8, 8, 16, 2, 2};
  return bytes[static_cast<int>(element)];
}

/// Rank after rank by the kernel that reduces two; 16-bit floats in 32 bits.
Bytes reduced(const GroupShape& shape, const std::vector<Bytes>& all) {
  const auto count = all[0].size() / bytes_of(shape.element);
  if (shape.element == Element::f16 || shape.element == Element::bf16) {
    Bytes result(all[0].size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = [&](std::size_t r) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &all[r][2 * i], 2);
        return shape.element == Element::f16 ? device::reduction::Float16::value(bits)
                                             : device::reduction::BFloat16::value(bits);
      };
      float sum = value(0);
      for (std::size_t r = 1; r < all.size(); ++r) {
        const float next = value(r);
        sum = shape.by == Combine::sum    ? sum + next
              : shape.by == Combine::prod ? sum * next
              : shape.by == Combine::min  ? std::min(sum, next)
                                          : std::max(sum, next);
      }
      const std::uint16_t bits = shape.element == Element::f16 ? device::reduction::Float16::bits(sum)
                                                               : device::reduction::BFloat16::bits(sum);
      std::memcpy(&result[2 * i], &bits, 2);
    }
    return result;
  }
  alignas(16) Bytes held = all[0];
  for (std::size_t r = 1; r < all.size(); ++r) {
    Bytes coming = all[r];
    memory::ReduceElements arguments;
    arguments.to = held.data();
    arguments.from = coming.data();
    arguments.count = count;
    arguments.element = shape.element;
    arguments.by = shape.by;
    memory::reduce_elements(arguments, {0, 1});
  }
  return held;
}

/// What `rank` must have received, of what all have sent.
Bytes expected(const GroupShape& shape, std::size_t rank, const std::vector<Bytes>& all) {
  const std::size_t block = shape.block_bytes;
  const auto part = [block](const Bytes& bytes, std::size_t index) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(block * index);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(block));
  };
  Bytes result;
  const auto append = [&result](const Bytes& bytes) { result.insert(result.end(), bytes.begin(), bytes.end()); };
  std::vector<Bytes> blocks;
  switch (shape.collective) {
    case PARTITA_COLLECTIVE_ALLREDUCE:
      return reduced(shape, all);
    case PARTITA_COLLECTIVE_ALLGATHER:
      for (const Bytes& bytes : all) append(part(bytes, 0));
      return result;
    case PARTITA_COLLECTIVE_REDUCE_SCATTER:
      for (const Bytes& bytes : all) blocks.push_back(part(bytes, rank));
      return reduced(shape, blocks);
    case PARTITA_COLLECTIVE_ALLTOALL:
      for (const Bytes& bytes : all) append(part(bytes, rank));
      return result;
    default:
      return all[static_cast<std::size_t>(shape.root)];
  }
}

std::string text_of(const GroupShape& shape) {
  return std::string(shape.algorithm == PARTITA_ALGORITHM_BUFFERS ? "in buffers, " : "in packets, ") +
         collective_names[shape.collective] + " of " + std::to_string(shape.block_bytes) + " bytes, " +
         std::to_string(shape.ranks) + " ranks, element " + std::to_string(static_cast<int>(shape.element)) +
         ", operation " + std::to_string(static_cast<int>(shape.by)) + (shape.in_place ? ", in place" : "") + ", " +
         std::to_string(shape.misaligned_bytes) + " bytes behind a boundary";
}

/// What all ranks send in an epoch, and what each must receive.
struct EpochOfGroup {
  EpochOfGroup(const GroupShape& shape, int epoch, std::size_t sent_bytes) {
    const auto ranks = static_cast<std::size_t>(shape.ranks);
    for (std::size_t r = 0; r < ranks; ++r) sent.push_back(contents(shape, r, epoch, sent_bytes));
    const bool alike =
        shape.collective == PARTITA_COLLECTIVE_ALLREDUCE || shape.collective == PARTITA_COLLECTIVE_ALLGATHER;
    for (std::size_t r = 0; r < ranks; ++r) {
      received.push_back(alike && r > 0 ? received[0] : expected(shape, r, sent));
    }
  }

  std::vector<Bytes> sent, received;
};

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

/// A collective by one of its algorithms.
struct Way {
  partita_u32 collective;
  partita_u32 algorithm;
};

GroupShape shape_of(const Way& way, int ranks, std::size_t block_bytes) {
  GroupShape shape;
  shape.collective = way.collective;
  shape.algorithm = way.algorithm;
  shape.ranks = ranks;
  shape.block_bytes = block_bytes;
  return shape;
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
  const auto tried = sanitized ? std::vector{2, 3, 5} : std::vector{2, 3, 4, 5, 8};
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

std::vector<Way> both_ways(const std::vector<partita_u32>& collectives) {
  std::vector<Way> ways;
  for (const partita_u32 collective : collectives) {
    ways.push_back({collective, PARTITA_ALGORITHM_PACKETS});
    ways.push_back({collective, PARTITA_ALGORITHM_BUFFERS});
  }
  return ways;
}
const auto name_of_way = [](const testing::TestParamInfo<Way>& info) {
  return std::string(collective_names[info.param.collective]) +
         (info.param.algorithm == PARTITA_ALGORITHM_BUFFERS ? "_in_buffers" : "_in_packets");
};
INSTANTIATE_TEST_SUITE_P(All, GridCollectives,
                         testing::ValuesIn(both_ways({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_ALLGATHER,
                                                      PARTITA_COLLECTIVE_REDUCE_SCATTER, PARTITA_COLLECTIVE_ALLTOALL,
                                                      PARTITA_COLLECTIVE_BCAST})),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(All, GridCollectivesInPlace,
                         testing::ValuesIn(both_ways({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_ALLGATHER,
                                                      PARTITA_COLLECTIVE_REDUCE_SCATTER, PARTITA_COLLECTIVE_ALLTOALL})),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(
    All, GridReductions,
    testing::ValuesIn(both_ways({PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_REDUCE_SCATTER})), name_of_way);

}  // namespace
}  // namespace partita::test
