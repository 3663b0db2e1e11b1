// A copy that two sides share, both played by this process: the kernel copies within one process too.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "link/direct/remote_process.hpp"
#include "link/direct/shared_copy.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"
#include "support/runs.hpp"
#include "support/sanitized.hpp"

namespace partita::link::direct {
namespace {

constexpr std::int64_t kib = 1024;

std::uint64_t address_of(const std::byte* bytes) {
  return reinterpret_cast<std::uint64_t>(bytes);
}

/// One request with its two sides.
struct Pair {
  explicit Pair(const Plan& matched) : plan(matched) {
    for (std::size_t i = 0; i < noise.size(); ++i) {
      noise[i] = static_cast<std::byte>(test::pattern(1, static_cast<std::int64_t>(i)));
    }
  }

  /// What the bytes are in `epoch`.
  const std::byte* expected(Epoch epoch) const { return noise.data() + epoch % most_shifts; }
  void fill(Epoch epoch) { std::memcpy(from.data(), expected(epoch), from.size()); }
  bool right(Epoch epoch, Range bytes) const {
    return std::memcmp(to.data() + bytes.begin, expected(epoch) + bytes.begin,
                       static_cast<std::size_t>(bytes.size())) == 0;
  }
  bool right(Epoch epoch) const { return right(epoch, {0, plan.total_bytes()}); }
  std::int32_t chunks(Range run) const { return Chunks(bytes_of(plan, run).size()).count(); }
  void put(std::int32_t t, Epoch epoch) { puts.put({t, t + 1}, epoch); }

  Plan plan;
  std::vector<std::byte> from = std::vector<std::byte>(static_cast<std::size_t>(plan.total_bytes()));
  std::vector<std::byte> to = from;
  static constexpr std::size_t most_shifts = 251;  ///< not a divisor of any chunk
  std::vector<std::byte> noise = std::vector<std::byte>(from.size() + most_shifts);
  std::vector<std::uint64_t> block = std::vector<std::uint64_t>(CopyBoard::size_bytes(plan) / sizeof(std::uint64_t));
  std::uint64_t pulled = 0;
  CopyBoard board{reinterpret_cast<std::byte*>(block.data())};
  SharedPuts puts{plan, from.data(), board, {remote_process(0, own_probe()), address_of(to.data())}, pulled};
  SharedArrivals pulls{plan, to.data(), board, remote_process(0, own_probe()), pulled};
};

TEST(Chunks, cover_each_byte_once) {
  const std::int64_t tib = kib * kib * kib * kib;
  for (const std::int64_t size_bytes :
       {std::int64_t{1}, 16 * kib, 32 * kib - 1, 32 * kib, 32 * kib + 1, 64 * kib, 128 * kib - 1, 128 * kib,
        128 * kib + 1, 256 * kib, 256 * kib + 1, 1000 * kib + 17, 4 * kib * kib * kib, tib}) {
    const Chunks chunks(size_bytes);
    ASSERT_GE(chunks.count(), 1);
    ASSERT_LE(chunks.count(), 65535) << "they are counted in 16 bits";
    std::int64_t end = 0;
    for (std::int32_t chunk = 0; chunk < chunks.count(); ++chunk) {
      const Range bytes = chunks.bytes({chunk, chunk + 1});
      ASSERT_EQ(bytes.begin, end);
      ASSERT_GT(bytes.size(), 0);
      end = bytes.end;
    }
    EXPECT_EQ(end, size_bytes);
    EXPECT_EQ(chunks.bytes({0, chunks.count()}), (Range{0, size_bytes}));
  }
}

TEST(Chunks, leave_what_is_not_worth_sharing_in_one_piece) {
  for (const std::int64_t size_bytes : {std::int64_t{1}, 16 * kib, 16 * kib + 1, 32 * kib - 1}) {
    EXPECT_FALSE(worth_sharing(size_bytes));
    EXPECT_EQ(Chunks(size_bytes).count(), 1) << size_bytes;
  }
  EXPECT_TRUE(worth_sharing(32 * kib));
}

TEST(Chunks, leave_one_for_each_side_of_what_is_shared) {
  for (std::int64_t size_bytes = 32 * kib; size_bytes <= 600 * kib; size_bytes += 1021) {
    const Chunks chunks(size_bytes);
    ASSERT_GE(chunks.count(), 2) << size_bytes;
    const std::int64_t first = chunks.bytes({0, 1}).size();
    EXPECT_GE(first, 16 * kib) << size_bytes;
    EXPECT_LE(first, 128 * kib) << size_bytes;
  }
}

TEST(CopyProgress, hands_out_each_chunk_once) {
  CopyProgress::Word word{};
  const CopyProgress progress(word);
  EXPECT_EQ(progress.claim(1, 2).size(), 0) << "nothing was offered";
  progress.offer(1, 10, 5);
  EXPECT_EQ(progress.claim(1, 2), (Range{2, 5}));
  EXPECT_EQ(progress.claim(1, 1000), (Range{1, 2}));
  EXPECT_EQ(progress.claim(1, 1), (Range{0, 1}));
  EXPECT_EQ(progress.claim(1, 1).size(), 0);
}

TEST(CopyProgress, is_complete_when_all_claimed_chunks_are_copied) {
  CopyProgress::Word word{};
  const CopyProgress progress(word);
  EXPECT_FALSE(progress.is_complete(7));
  progress.offer(7, 4, 3);
  EXPECT_EQ(progress.claim(7, 1), (Range{0, 1}));
  EXPECT_FALSE(progress.is_complete(7));
  EXPECT_TRUE(progress.add_copied(7, 1));
  EXPECT_FALSE(progress.is_complete(7));
  EXPECT_TRUE(progress.add_copied(7, 3));
  EXPECT_TRUE(progress.is_complete(7));
  EXPECT_FALSE(progress.is_complete(8));
  EXPECT_FALSE(progress.is_complete(6));
}

TEST(CopyProgress, counts_as_many_chunks_as_a_run_can_have) {
  CopyProgress::Word word{};
  const CopyProgress progress(word);
  progress.offer(7, 65535, 1);
  EXPECT_EQ(progress.claim(7, 1), (Range{0, 65534}));
  EXPECT_TRUE(progress.add_copied(7, 65534));
  EXPECT_FALSE(progress.is_complete(7));
  EXPECT_TRUE(progress.add_copied(7, 1));
  EXPECT_TRUE(progress.is_complete(7));
}

TEST(CopyProgress, gives_nothing_to_a_claimer_of_another_epoch) {
  CopyProgress::Word word{};
  const CopyProgress progress(word);
  for (Epoch epoch = 0xfffffffeu, count = 0; count < 4; epoch = next(epoch), ++count) {
    progress.offer(epoch, 4, 1);
    EXPECT_EQ(progress.claim(epoch - 1, 1).size(), 0);
    EXPECT_EQ(progress.claim(next(epoch), 1).size(), 0);
    EXPECT_EQ(progress.claim(epoch, 1).size(), 3);
    EXPECT_FALSE(progress.add_copied(epoch - 1, 1));
    EXPECT_TRUE(progress.add_copied(epoch, 4));
    EXPECT_TRUE(progress.is_complete(epoch));
  }
}

TEST(CopyProgress, completes_no_revoked_epoch) {
  CopyProgress::Word word{};
  const CopyProgress progress(word);
  progress.offer(7, 10, 5);
  EXPECT_EQ(progress.claim(7, 5), (Range{4, 5}));
  EXPECT_TRUE(progress.add_copied(7, 5));
  EXPECT_EQ(progress.revoke(7), 4);
  EXPECT_EQ(progress.revoke(7), 0) << "once";
  EXPECT_FALSE(progress.add_copied(7, 1));
  EXPECT_EQ(progress.claim(7, 1).size(), 0);
  EXPECT_FALSE(progress.is_complete(7));
  progress.offer(8, 10, 10);
  EXPECT_FALSE(progress.add_copied(7, 1));
  EXPECT_TRUE(progress.add_copied(8, 10));
  EXPECT_EQ(progress.revoke(8), 0) << "all of it has been copied";
  EXPECT_TRUE(progress.is_complete(8));
}

TEST(CopyBoard, tells_of_each_partition_in_which_run_it_lies) {
  const Plan plan(8, 8, 8, 8 * kib);
  std::vector<std::uint64_t> block(CopyBoard::size_bytes(plan) / sizeof(std::uint64_t));
  const CopyBoard board(reinterpret_cast<std::byte*>(block.data()));
  for (const Epoch epoch : {Epoch{7}, Epoch{0xffffffff}, Epoch{2}}) {
    for (std::int32_t t = 0; t < 8; ++t) EXPECT_FALSE(board.find(t, epoch).put);
    board.begin({2, 6}, epoch);
    EXPECT_TRUE(board.find(2, epoch).put);
    EXPECT_FALSE(board.find(3, epoch).put) << "not before its run is offered";
    board.join({2, 6}, epoch);
    board.arrive({0, 2}, epoch);
    board.begin({6, 8}, epoch);
    board.join({6, 8}, epoch);
    for (std::int32_t t = 0; t < 8; ++t) {
      EXPECT_TRUE(board.find(t, epoch).put);
      EXPECT_EQ(board.find(t, epoch).arrived, t < 2) << t;
      EXPECT_EQ(board.find(t, epoch).first, t < 2 ? t : t < 6 ? 2 : 6) << t;
    }
    EXPECT_EQ(board.run_from(2, epoch), (Range{2, 6}));
    EXPECT_EQ(board.run_from(6, epoch), (Range{6, 8}));
    EXPECT_LE(board.run_from(0, epoch).size(), 0) << "nothing of it is left to copy";
    EXPECT_LE(board.run_from(3, epoch).size(), 0);
    EXPECT_LE(board.run_from(2, next(epoch)).size(), 0);
  }
}

class SharedCopy : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_reach(own_probe())) GTEST_SKIP() << "the kernel lets no process use process_vm_readv";
  }
};

TEST_F(SharedCopy, is_made_by_the_sender_where_the_receiver_does_not_look) {
  Pair pair(Plan(4, 4, 4, 4 * (300 * kib + 5)));
  for (Epoch epoch = 1; epoch <= 5; ++epoch) {
    pair.fill(epoch);
    for (std::int32_t t = 0; t < 4; ++t) pair.put(t, epoch);
    EXPECT_TRUE(pair.puts.finished());
    EXPECT_TRUE(pair.right(epoch));
    for (std::int32_t t = 0; t < 4; ++t) EXPECT_TRUE(pair.pulls.arrived(t, epoch));
    EXPECT_FALSE(pair.pulls.arrived(0, next(epoch)));
  }
}

TEST_F(SharedCopy, tells_how_far_a_receiver_has_what_it_waits_for) {
  Pair pair(Plan(8, 8, 8, 8 * 16 * kib));
  for (const Epoch epoch : {Epoch{7}, Epoch{8}}) {
    pair.fill(epoch);
    EXPECT_EQ(pair.pulls.first_missing({0, 8}, epoch), 0);
    pair.puts.put({5, 8}, epoch);
    EXPECT_EQ(pair.pulls.first_missing({0, 8}, epoch), 0);
    EXPECT_EQ(pair.pulls.first_missing({5, 8}, epoch), 8);
    EXPECT_EQ(pair.pulls.first_missing({6, 7}, epoch), 7) << "no more than it was asked for";
    pair.puts.put({0, 1}, epoch);  // not worth sharing
    EXPECT_EQ(pair.pulls.first_missing({0, 8}, epoch), 1);
    pair.puts.put({1, 4}, epoch);
    EXPECT_EQ(pair.pulls.first_missing({0, 8}, epoch), 4);
    EXPECT_EQ(pair.pulls.first_missing({2, 8}, epoch), 4);
    pair.puts.put({4, 5}, epoch);
    EXPECT_EQ(pair.pulls.first_missing({0, 8}, epoch), 8);
    EXPECT_TRUE(pair.right(epoch));
  }
}

TEST_F(SharedCopy, is_not_finished_while_the_receiver_still_copies_a_chunk) {
  Pair pair(Plan(1, 1, 1, 16 * kib * kib));
  const CopyProgress receivers = pair.board.progress(0);
  const std::int32_t chunks = pair.chunks({0, 1});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool claimed = false;
  for (Epoch epoch = 1; !claimed; ++epoch) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the receiver never came to claim a chunk";
    pair.fill(epoch);
    Range mine;
    {
      const std::jthread sender([&] { pair.put(0, epoch); });
      while (mine.size() == 0 && !receivers.is_complete(epoch)) mine = receivers.claim(epoch, chunks);
    }  // put has returned
    if (mine.size() == 0) continue;
    claimed = true;
    EXPECT_FALSE(pair.puts.finished());
    EXPECT_FALSE(pair.pulls.arrived(0, epoch)) << "and nothing is left to claim";
    const Range bytes = Chunks(pair.plan.total_bytes()).bytes(mine);
    std::copy(pair.from.begin() + bytes.begin, pair.from.begin() + bytes.end, pair.to.begin() + bytes.begin);
    EXPECT_TRUE(receivers.add_copied(epoch, static_cast<std::int32_t>(mine.size())));
    EXPECT_TRUE(pair.pulls.arrived(0, epoch));
    EXPECT_FALSE(pair.puts.finished());
    std::atomic_ref(pair.pulled).fetch_add(static_cast<std::uint64_t>(mine.size()), std::memory_order_release);
    EXPECT_TRUE(pair.puts.finished());
    EXPECT_TRUE(pair.right(epoch));
  }
}

/// As a receiver that is stopped within a chunk, while the sender's wait runs out of time.
TEST_F(SharedCopy, does_not_arrive_when_the_sender_gives_up_an_epoch_of_which_a_chunk_is_still_read) {
  Pair pair(Plan(2, 1, 2, 2 * kib * kib));
  const std::int32_t chunks = pair.chunks({1, 2});
  pair.put(0, 7);
  pair.board.begin({1, 2}, 7);
  pair.board.progress(1).offer(7, chunks, chunks - 2);
  EXPECT_TRUE(pair.board.progress(1).add_copied(7, chunks - 2));
  EXPECT_EQ(pair.board.progress(1).claim(7, 2), (Range{1, 2}));
  pair.puts.give_up(7);
  EXPECT_FALSE(pair.board.progress(1).add_copied(7, 1)) << "the bytes may be others by now";
  for (int look = 0; look < 3; ++look) EXPECT_FALSE(pair.pulls.arrived(1, 7));
  EXPECT_TRUE(pair.pulls.arrived(0, 7)) << "it had arrived before";
}

/// As a thread within Pready_range, while the wait of another thread runs out of time.
TEST_F(SharedCopy, does_not_arrive_when_it_is_put_after_the_sender_gave_the_epoch_up) {
  Pair pair(Plan(2, 1, 2, 2 * kib * kib));
  pair.fill(7);
  pair.put(0, 7);
  pair.puts.give_up(7);
  pair.put(1, 7);
  pair.fill(8);  // the buffer is the program's again
  for (int look = 0; look < 100; ++look) ASSERT_FALSE(pair.pulls.arrived(1, 7));
  EXPECT_TRUE(pair.puts.finished());
  EXPECT_TRUE(pair.pulls.arrived(0, 7)) << "it had arrived before";
  EXPECT_TRUE(pair.right(7, pair.plan.bytes(0)));
}

TEST_F(SharedCopy, brings_no_later_bytes_however_puts_meet_a_sender_that_gives_up) {
  constexpr std::int32_t transports = 4;
  Pair pair(Plan(transports, 1, transports, transports * (300 * kib + 5)));
  test::Random random(4712);
  for (Epoch epoch = 1; epoch <= test::repetitions(300U, 60U); ++epoch) {
    pair.fill(epoch);
    std::atomic<bool> over{false};
    std::vector<std::jthread> receivers;
    for (int receiver = 0; receiver < 2; ++receiver) {
      receivers.emplace_back([&] {
        while (!over) {
          for (std::int32_t t = 0; t < transports; ++t) pair.pulls.arrived(t, epoch);
        }
      });
    }
    {
      const std::jthread marker([&] {
        for (std::int32_t t = 0; t < transports; ++t) pair.put(t, epoch);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 200)));
      pair.puts.give_up(epoch);
    }
    pair.fill(epoch + 1);
    over = true;
    receivers.clear();
    ASSERT_TRUE(pair.puts.finished()) << "epoch " << epoch;
    for (std::int32_t t = 0; t < transports; ++t) {
      if (pair.pulls.arrived(t, epoch)) {
        ASSERT_TRUE(pair.right(epoch, pair.plan.bytes(t))) << "transfer " << t << " of epoch " << epoch;
      }
    }
  }
}

TEST_F(SharedCopy, goes_on_with_the_next_epoch_after_one_was_given_up) {
  Pair pair(Plan(1, 1, 1, 16 * kib * kib));
  const CopyProgress receivers = pair.board.progress(0);
  const std::int32_t chunks = pair.chunks({0, 1});
  for (Epoch epoch = 1; epoch <= test::repetitions(100U, 20U); ++epoch) {
    Range held;
    {
      const std::jthread sender([&] { pair.put(0, epoch); });
      while (held.size() == 0 && !receivers.is_complete(epoch)) held = receivers.claim(epoch, chunks);
      pair.puts.give_up(epoch);
    }
    EXPECT_EQ(pair.puts.finished(), held.size() == 0);
    std::atomic_ref(pair.pulled).fetch_add(static_cast<std::uint64_t>(held.size()), std::memory_order_release);
    if (held.size() > 0) {
      EXPECT_FALSE(receivers.add_copied(epoch, static_cast<std::int32_t>(held.size())));
    }
    ASSERT_TRUE(pair.puts.finished()) << "epoch " << epoch;
  }
}

TEST_F(SharedCopy, lets_the_sender_finish_when_the_receiver_cannot_read) {
  Pair pair(Plan(1, 1, 1, kib * kib));
  bool claimed = false;
  for (Epoch epoch = 1; epoch <= 10000 && !claimed; ++epoch) {
    pair.board.sender_data() = 64;  // mapped in no process
    {
      const std::jthread sender([&] { pair.put(0, epoch); });
      while (!claimed && !pair.board.progress(0).is_complete(epoch)) {
        try {
          pair.pulls.arrived(0, epoch);
        } catch (const Error&) {
          claimed = true;
        }
      }
    }
    EXPECT_TRUE(pair.puts.finished());
  }
  EXPECT_TRUE(claimed) << "the receiver never came to claim a chunk";
}

TEST_F(SharedCopy, takes_several_threads_of_the_receiver_and_any_delay) {
  constexpr std::int32_t transports = 3;
  constexpr int pollers = 3;
  const std::int64_t total_bytes = transports * (5 * 128 * kib + 1);
  Pair pair(Plan(transports, 1, transports, total_bytes));
  test::Random random(4711);
  constexpr int rounds = test::repetitions(200, 40);
  Epoch epoch = 0xffffffffu - rounds / 2;  // passes the wrap
  for (int round = 0; round < rounds; ++round, epoch = next(epoch)) {
    pair.fill(epoch);
    std::vector<std::jthread> receivers;
    for (int poller = 0; poller < pollers; ++poller) {
      receivers.emplace_back([&, delay = std::chrono::microseconds(random.integer(0, 60))] {
        std::this_thread::sleep_for(delay);
        for (std::int32_t t = 0; t < transports; ++t) {
          while (!pair.pulls.arrived(t, epoch)) std::this_thread::yield();
          EXPECT_TRUE(pair.right(epoch, pair.plan.bytes(t))) << "transfer " << t << " of epoch " << epoch;
        }
      });
    }
    for (const std::int32_t t : random.permutation(transports)) {
      if (random.one_in(3)) std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 60)));
      pair.put(t, epoch);
    }
    while (!pair.puts.finished()) std::this_thread::yield();
    std::fill(pair.from.begin(), pair.from.end(), std::byte{0xee});
    receivers.clear();
    ASSERT_TRUE(pair.right(epoch)) << "epoch " << epoch;
  }
}

TEST_F(SharedCopy, carries_partitions_of_no_bytes) {
  const std::vector<std::int64_t> sizes{0, 300 * kib, 0, 0, 7, 0};
  const Partitioning sender{sizes};
  Pair pair(Plan(sender, sender, 6));
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    pair.fill(epoch);
    for (std::int32_t t = 0; t < 6; ++t) {
      EXPECT_FALSE(pair.pulls.arrived(t, epoch));
      pair.put(t, epoch);
      EXPECT_TRUE(pair.pulls.arrived(t, epoch)) << t;
    }
    EXPECT_TRUE(pair.puts.finished());
    EXPECT_TRUE(pair.right(epoch));
  }
}

/// Transport partitions of 3 KB; some of their runs are one chunk, some are many.
constexpr std::int32_t many_transports = 400;
constexpr std::int64_t many_bytes = many_transports * std::int64_t{3001};

TEST_F(SharedCopy, takes_runs_of_any_length_from_several_threads) {
  Pair pair(Plan(many_transports, 10, many_transports, many_bytes));
  test::Random random(4713);
  constexpr int rounds = test::repetitions(150, 30);
  Epoch epoch = 0xffffffffu - rounds / 3;  // passes the wrap
  for (int round = 0; round < rounds; ++round, epoch = next(epoch)) {
    pair.fill(epoch);
    const std::vector<Range> runs = test::random_runs(random, many_transports);
    pair.puts.put(runs[0], epoch);
    for (std::int64_t t = runs[0].begin; t < runs[0].end; ++t) {
      while (!pair.pulls.arrived(static_cast<std::int32_t>(t), epoch)) std::this_thread::yield();
    }
    ASSERT_TRUE(pair.right(epoch, bytes_of(pair.plan, runs[0]))) << "the first run, alone";

    std::vector<std::jthread> receivers;
    for (int receiver = 0; receiver < 2; ++receiver) {
      receivers.emplace_back([&, order = random.permutation(many_transports)] {
        for (const std::int32_t t : order) {
          while (!pair.pulls.arrived(t, epoch)) std::this_thread::yield();
          EXPECT_TRUE(pair.right(epoch, pair.plan.bytes(t))) << "transfer " << t << " of epoch " << epoch;
        }
      });
    }
    {
      std::vector<std::jthread> senders;
      for (std::size_t sender = 0; sender < 2; ++sender) {
        senders.emplace_back([&, sender] {
          for (std::size_t run = 1 + sender; run < runs.size(); run += 2) pair.puts.put(runs[run], epoch);
        });
      }
    }
    while (!pair.puts.finished()) std::this_thread::yield();
    std::fill(pair.from.begin(), pair.from.end(), std::byte{0xee});
    receivers.clear();
    ASSERT_TRUE(pair.right(epoch)) << "epoch " << epoch;
  }
}

TEST_F(SharedCopy, brings_no_later_bytes_of_runs_that_meet_a_sender_that_gives_up) {
  Pair pair(Plan(many_transports, 10, many_transports, many_bytes));
  test::Random random(4714);
  for (Epoch epoch = 1; epoch <= test::repetitions(200U, 40U); ++epoch) {
    pair.fill(epoch);
    const std::vector<Range> runs = test::random_runs(random, many_transports);
    std::atomic<bool> over{false};
    std::vector<std::jthread> receivers;
    for (int receiver = 0; receiver < 2; ++receiver) {
      receivers.emplace_back([&] {
        while (!over) {
          for (std::int32_t t = 0; t < many_transports; ++t) pair.pulls.arrived(t, epoch);
        }
      });
    }
    {
      const std::jthread marker([&] {
        for (const Range& run : runs) pair.puts.put(run, epoch);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 150)));
      pair.puts.give_up(epoch);
    }  // the calls that mark have returned
    pair.fill(epoch + 1);
    over = true;
    receivers.clear();
    ASSERT_TRUE(pair.puts.finished()) << "epoch " << epoch;
    for (std::int32_t t = 0; t < many_transports; ++t) {
      if (pair.pulls.arrived(t, epoch)) {
        ASSERT_TRUE(pair.right(epoch, pair.plan.bytes(t))) << "transfer " << t << " of epoch " << epoch;
      }
    }
  }
}

TEST_F(SharedCopy, says_what_the_kernel_refused) {
  std::vector<std::byte> bytes(100);
  const auto sentence_of = [](auto copy) -> std::string {
    try {
      copy();
    } catch (const Error& error) {
      return error.sentence();
    }
    return "no error";
  };
  const std::uint64_t unmapped = 64;
  const RemoteProcess self(3, own_probe());
  EXPECT_EQ(
      sentence_of([&] { self.read(unmapped, bytes.data(), 100); }),
      "cannot copy 100 bytes from the memory of rank 3 (process " + std::to_string(::getpid()) + "): Bad address");
  EXPECT_EQ(
      sentence_of([&] { self.write(unmapped, bytes.data(), 100); }),
      "cannot copy 100 bytes into the memory of rank 3 (process " + std::to_string(::getpid()) + "): Bad address");
}

TEST_F(SharedCopy, does_not_arrive_and_does_not_fail_when_the_senders_process_has_ended) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);  // and its number stays taken

  ReachProbe probe = own_probe();
  probe.pid = child;
  Pair pair(Plan(1, 1, 1, kib * kib));
  SharedArrivals pulls(pair.plan, pair.to.data(), pair.board, remote_process(1, probe), pair.pulled);
  const std::int32_t chunks = pair.chunks({0, 1});
  pair.board.begin({0, 1}, 1);
  pair.board.progress(0).offer(1, chunks, 1);
  for (int look = 0; look < 10; ++look) EXPECT_FALSE(pulls.arrived(0, 1));
  EXPECT_EQ(pair.board.progress(0).claim(1, 1).size(), chunks - 2) << "it claimed on after the first failure";
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED), 0);
}

TEST_F(SharedCopy, reports_a_process_that_has_ended_since) {
  std::uint64_t word = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ReachProbe probe = own_probe();
  probe.pid = child;  // at the same addresses, with the same secret
  const RemoteProcess process(5, probe);
  EXPECT_FALSE(process.ended());
  process.write(address_of(reinterpret_cast<std::byte*>(&word)), reinterpret_cast<std::byte*>(&word), sizeof word);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED), 0);
  EXPECT_TRUE(process.ended());
  try {
    process.write(64, reinterpret_cast<std::byte*>(&word), sizeof word);
    ADD_FAILURE() << "written to a process that has ended";
  } catch (const Error& error) {
    EXPECT_NE(error.sentence().find("of rank 5: its process"), std::string::npos) << error.sentence();
  }
}

TEST_F(SharedCopy, touches_no_process_that_got_the_number_of_another) {
  ReachProbe probe = own_probe();
  ++probe.expected;  // this process, as if it were one with another secret
  const RemoteProcess process(5, probe);
  std::uint64_t word = 1;
  const std::uint64_t other = 2;
  EXPECT_THROW(process.write(address_of(reinterpret_cast<std::byte*>(&word)),
                             reinterpret_cast<const std::byte*>(&other), sizeof other),
               Error);
  EXPECT_EQ(word, 1U);
  EXPECT_FALSE(process.read(address_of(reinterpret_cast<std::byte*>(&word)), reinterpret_cast<std::byte*>(&word), 8));
}

}  // namespace
}  // namespace partita::link::direct
