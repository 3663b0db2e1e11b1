// A receiver that fetches what its sender holds, both sides played by this process: the kernel copies within one, too.
#include "link/direct/fetching.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/pattern.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "transfer/gathering.hpp"

namespace partita::link::direct {
namespace {

/// Zeroed memory of a board, with bytes around it that stay what they are.
class BoardMemory {
 public:
  explicit BoardMemory(std::int32_t partitions)
      : size_bytes_(HoldBoard::size_bytes(partitions)), lines_(size_bytes_ / sizeof(Line) + 2) {
    lines_.front().fill(guard);
    lines_.back().fill(guard);
  }
  std::byte* block() { return reinterpret_cast<std::byte*>(lines_.data() + 1); }
  bool untouched_around() const {
    return lines_.front().is_all(guard) && lines_.back().is_all(guard) && size_bytes_ % sizeof(Line) == 0;
  }

 private:
  static constexpr unsigned char guard = 0x5a;
  struct alignas(64) Line {
    unsigned char bytes[64] = {};
    void fill(unsigned char value) { std::memset(bytes, value, sizeof bytes); }
    bool is_all(unsigned char value) const {
      for (const unsigned char byte : bytes) {
        if (byte != value) return false;
      }
      return true;
    }
  };
  std::size_t size_bytes_;
  std::vector<Line> lines_;
};

TEST(HoldBoard, keeps_within_its_memory_and_hands_out_each_transport_partition_once_an_epoch) {
  for (const std::int32_t partitions : {1, 2, 31, 32, 33, 63, 64, 65, 127, 200}) {
    BoardMemory memory(partitions);
    const HoldBoard board(memory.block(), partitions);
    EXPECT_FALSE(board.holds(7)) << "it begins with nothing held";
    for (const Epoch epoch : {Epoch{7}, Epoch{8}, Epoch{0xffffffff}, Epoch{2}}) {
      board.begin(epoch);
      EXPECT_TRUE(board.holds(epoch));
      EXPECT_FALSE(board.holds(next(epoch)));
      for (std::int64_t t = 0; t < partitions; ++t) {
        const std::int64_t first = t / HoldBoard::bits * HoldBoard::bits;
        const std::uint64_t bit = std::uint64_t{1} << (t - first);
        EXPECT_EQ(board.claim(first, bit, epoch - 1), 0U) << "of an epoch that is over nobody claims";
        EXPECT_EQ(board.left(first, epoch) & bit, 0U);
        EXPECT_EQ(board.claim(first, bit, epoch), bit);
        EXPECT_EQ(board.claim(first, bit, epoch), 0U);
        EXPECT_EQ(board.left(first, epoch) & bit, bit);
        EXPECT_EQ(board.left(first, next(epoch)) & bit, bit) << "of another epoch all has left";
      }
      board.end();
      EXPECT_FALSE(board.holds(epoch));
    }
    EXPECT_TRUE(memory.untouched_around()) << partitions << " partitions";
  }
}

/// What the sender puts itself, this test's threads keep.
class NoArrivals final : public Arrivals {
 public:
  bool arrived(std::int32_t, Epoch) override { return false; }
  ReceiverFacts facts() const override { return {}; }
};

/// A request whose sender holds, with its two sides.
struct Request {
  Request(std::int32_t partitions, std::int32_t transports, std::int32_t transfers, std::int64_t partition_bytes)
      : plan(partitions, 1, transports, partitions * partition_bytes), memory(partitions), gathering(partitions) {
    gathering.connect(plan, transfers, board);
  }

  void begin(Epoch epoch) {
    fetching.open(epoch);
    gathering.begin(true, epoch);
    std::fill(from.begin(), from.end(), std::byte{0});
    std::fill(to.begin(), to.end(), std::byte{0});
  }
  /// Writes the bytes of `partition` and marks it; `leave` gets what leaves by that.
  template <class Leave>
  void mark(std::int64_t partition, Epoch epoch, Leave leave) {
    const Range bytes = plan.send().bytes({partition, partition + 1});
    for (std::int64_t i = bytes.begin; i < bytes.end; ++i) from[static_cast<std::size_t>(i)] = expected(epoch, i);
    if (gathering.add(partition) == Gathering::Added::completes) gathering.leave_with(partition, leave, [] {});
  }
  bool fetched(std::int64_t t, Epoch epoch) { return fetching.fetched(static_cast<std::int32_t>(t), epoch, arrivals); }
  /// The same, looked for until it is so, or for `patience`.
  bool is_fetched_within(std::chrono::milliseconds patience, std::int64_t t, Epoch epoch) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!fetched(t, epoch)) {
      if (std::chrono::steady_clock::now() > end) return false;
    }
    return true;
  }
  static std::byte expected(Epoch epoch, std::int64_t i) { return static_cast<std::byte>(test::pattern(epoch, i)); }
  bool right(std::int64_t t, Epoch epoch) const {
    const Range bytes = plan.bytes(t);
    for (std::int64_t i = bytes.begin; i < bytes.end; ++i) {
      if (to[static_cast<std::size_t>(i)] != expected(epoch, i)) return false;
    }
    return true;
  }

  Plan plan;
  BoardMemory memory;
  HoldBoard board{memory.block(), plan.send_partitions()};
  Gathering gathering;
  std::vector<std::byte> from = std::vector<std::byte>(static_cast<std::size_t>(plan.total_bytes()));
  std::vector<std::byte> to = from;
  NoArrivals arrivals;
  Fetching fetching{plan, board, 0, own_probe(), reinterpret_cast<std::uint64_t>(from.data()), {to.data(), to.data()}};
};

constexpr std::chrono::seconds long_enough(20);
constexpr std::chrono::milliseconds for_good(5);  // a thousand times as long as anything waits

TEST(Fetching, takes_what_waits_while_its_neighbours_do_not_come) {
  for (const std::int32_t each : {1, 3}) {  // send partitions in a transport partition
    Request request(8 * each, 8, 2, 700);
    for (const Epoch epoch : {Epoch{2}, Epoch{3}}) {
      request.begin(epoch);
      std::vector<Range> left;
      const auto leave = [&](Range run) { left.push_back(run); };
      for (std::int32_t p = 2 * each; p < 3 * each; ++p) {
        EXPECT_FALSE(request.fetched(2, epoch)) << "before all of it is marked";
        request.mark(p, epoch, leave);
      }
      EXPECT_TRUE(left.empty()) << "its group is not complete";
      ASSERT_TRUE(request.is_fetched_within(long_enough, 2, epoch));
      EXPECT_TRUE(request.right(2, epoch));
      EXPECT_EQ(request.gathering.fetched(), 1);
      EXPECT_FALSE(request.is_fetched_within(for_good, 1, epoch)) << "it is not marked";
      for (std::int32_t p = 0; p < 4 * each; ++p) {
        if (p / each != 2) request.mark(p, epoch, leave);
      }
      EXPECT_EQ(left, (std::vector<Range>{{0, 2}, {3, 4}})) << "the group leaves without what was fetched";
      EXPECT_FALSE(request.is_fetched_within(for_good, 1, epoch)) << "the sender has claimed it";
      EXPECT_EQ(request.gathering.fetched(), 1);
      // The other group waits meanwhile, in part.
      for (std::int32_t p = 4 * each; p < 6 * each; ++p) request.mark(p, epoch, leave);
      ASSERT_TRUE(request.is_fetched_within(long_enough, 5, epoch));
      EXPECT_TRUE(request.fetched(4, epoch));
      EXPECT_EQ(request.gathering.fetched(), 3);
    }
  }
}

TEST(Fetching, leaves_the_senders_words_alone_at_first_for_who_waits_for_all) {
  Request request(8, 8, 2, 700);
  const auto leave = [](Range) { FAIL() << "its neighbours are not marked"; };
  for (const Epoch epoch : {Epoch{2}, Epoch{3}}) {
    request.begin(epoch);
    request.mark(2, epoch, leave);
    const auto begin = std::chrono::steady_clock::now();
    const auto end = begin + long_enough;
    while (!request.fetching.fetched_meanwhile(2, epoch, request.arrivals) && std::chrono::steady_clock::now() < end) {
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(request.right(2, epoch));
    EXPECT_GE(took, std::chrono::microseconds(5 + 3)) << "left alone, then waiting unchanged";
    EXPECT_LT(took, long_enough);
    EXPECT_TRUE(request.fetching.fetched_meanwhile(2, epoch, request.arrivals));
  }
}

TEST(Fetching, takes_nothing_of_another_epoch_or_of_one_that_was_given_up) {
  Request request(4, 4, 1, 100);
  request.begin(5);
  request.mark(0, 5, [](Range) {});
  EXPECT_FALSE(request.is_fetched_within(for_good, 0, 4));
  EXPECT_FALSE(request.is_fetched_within(for_good, 0, 6));
  request.board.end();
  EXPECT_FALSE(request.is_fetched_within(for_good, 0, 5));
  EXPECT_EQ(request.board.fetched(), 0);
  request.gathering.begin(false, 6);
  EXPECT_EQ(request.gathering.add(0), Gathering::Added::completes) << "in an epoch that does not hold it leaves";
  EXPECT_FALSE(request.is_fetched_within(for_good, 0, 6));
}

TEST(Fetching, forgets_what_it_fetched_before_the_number_of_that_epoch_comes_again) {
  Request request(4, 4, 1, 100);
  request.begin(5);
  request.mark(0, 5, [](Range) {});
  ASSERT_TRUE(request.is_fetched_within(long_enough, 0, 5));
  for (const Epoch epoch : {Epoch{0x7fffffff}, Epoch{0x80000000}, Epoch{0xffffffff}, Epoch{2}, Epoch{4}}) {
    request.begin(epoch);
  }
  request.begin(5);
  EXPECT_FALSE(request.fetched(0, 5)) << "it is not marked in this one";
}

TEST(Fetching, copies_of_large_partitions_one_a_look) {
  Request request(4, 4, 1, 200 * 1024);
  request.begin(5);
  for (int p = 0; p < 3; ++p) request.mark(p, 5, [](Range) {});
  ASSERT_TRUE(request.is_fetched_within(long_enough, 0, 5));
  EXPECT_LT(request.gathering.fetched(), 3) << "one look takes not all";
  ASSERT_TRUE(request.is_fetched_within(long_enough, 2, 5));
  for (int t = 0; t < 3; ++t) EXPECT_TRUE(request.right(t, 5));
}

TEST(Fetching, reads_only_memory_that_the_kernel_reads) {
  const std::byte byte{};
  const auto address = reinterpret_cast<std::uint64_t>(&byte);
  EXPECT_TRUE(can_read(own_probe(), address, 1));
  EXPECT_FALSE(can_read(own_probe(), 64, 1));
  EXPECT_FALSE(can_read(own_probe(), address, std::int64_t{1} << 46)) << "its end counts as well";
  EXPECT_TRUE(can_read(own_probe(), 64, 0)) << "of no bytes none is read";
  ReachProbe other = own_probe();
  other.expected += 1;
  EXPECT_FALSE(can_read(other, address, 1)) << "another process by now";
}

TEST(Fetching, threads_that_mark_and_threads_that_look_move_each_transport_partition_once) {
  test::Random random(20260302, 1);
  for (int round = 0; round < test::repetitions(12, 4); ++round) {
    const auto transports = static_cast<std::int32_t>(random.between(2, 150));
    const auto partitions = static_cast<std::int32_t>(transports * (random.one_in(2) ? 1 : random.between(1, 3)));
    Request request(partitions, transports, static_cast<std::int32_t>(random.between(1, transports - 1)), 64);
    Epoch epoch = 0xfffffffa;  // past the wrap, too
    for (int turn = 0; turn < 12; ++turn, epoch = next(epoch)) {
      request.begin(epoch);
      std::vector<std::atomic<int>> left(static_cast<std::size_t>(transports));
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int marker = 0; marker < 2; ++marker) {
        const std::int64_t pause_at = random.between(0, partitions - 1);
        threads.emplace_back([&, marker, pause_at] {
          for (std::int64_t p = marker; p < partitions; p += 2) {
            if (p / 2 == pause_at / 2) std::this_thread::sleep_for(std::chrono::microseconds(200));
            request.mark(p, epoch, [&](Range run) {
              for (std::int64_t t = run.begin; t < run.end; ++t) left[static_cast<std::size_t>(t)] += 1;
            });
          }
        });
      }
      for (int looker = 0; looker < 2; ++looker) {
        threads.emplace_back([&] {
          for (std::int64_t t = 0; t < transports; ++t) {
            while (!request.fetched(t, epoch) && left[static_cast<std::size_t>(t)] == 0) std::this_thread::yield();
            if (request.fetched(t, epoch)) wrong += request.right(t, epoch) ? 0 : 1;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      int fetched = 0;
      for (std::int64_t t = 0; t < transports; ++t) {
        const int times = (request.fetched(t, epoch) ? 1 : 0) + left[static_cast<std::size_t>(t)];
        EXPECT_EQ(times, 1) << "transport partition " << t;
        fetched += request.fetched(t, epoch) ? 1 : 0;
      }
      EXPECT_EQ(request.gathering.fetched(), fetched);
      EXPECT_EQ(wrong, 0);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace partita::link::direct
