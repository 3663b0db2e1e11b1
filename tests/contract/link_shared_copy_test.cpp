// Link direct into plain memory, large: both ranks copy. What the suite of all links cannot try: it does not know of
// chunks.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "contract/job_links.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/runs.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t chunk_bytes = 128 * kib;  // of transfers that have two of them at least

class SharedCopy : public testing::Test {
 protected:
  void TearDown() override { harness_barrier(); }

  /// Whether `pair` shares its copies, on both ranks alike; `why_not_` says why not.
  bool shares(const Pair& pair, int receiver) {
    char said[512] = {};
    if (rank() == receiver) {
      const std::string text = pair.refusal() ? *pair.refusal() : pair.way;
      text.copy(said, sizeof said - 1);
    }
    PMPI_Bcast(said, sizeof said, MPI_CHAR, receiver, harness_comm());
    why_not_ = std::string("no shared copies here (cores for all ranks? process_vm_readv allowed?): ") + said;
    return why_not_.find("both ranks copy") != std::string::npos;
  }

  std::string why_not_;
};

#define PARTITA_SKIP_IF_NOT_SHARED(pair, receiver) \
  if (!shares(pair, receiver)) GTEST_SKIP() << why_not_

void maybe_sleep(Random& random, int most_us) {
  if (random.one_in(2)) std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, most_us)));
}

/// A stream of choices of this rank's own.
Random own_random() {
  return Random(job_seed(), static_cast<std::uint64_t>(rank()) + 1);
}

TEST_F(SharedCopy, carries_every_byte_around_the_ends_of_chunks) {
  JobLinks links;
  const std::vector<std::int64_t> sizes{32 * kib,
                                        32 * kib + 1,
                                        50'001,
                                        2 * chunk_bytes - 1,
                                        2 * chunk_bytes,
                                        2 * chunk_bytes + 1,
                                        3 * chunk_bytes - 1,
                                        3 * chunk_bytes,
                                        8 * chunk_bytes + 1,
                                        1'000'003};
  for (const std::int64_t partition_bytes : sizes) {
    for (const std::int32_t transports : {1, 3}) {
      const Shape shape{transports, 1, transports, transports * partition_bytes};
      step(to_string(shape));
      Pair pair(links, "direct", shape, MemoryKind::plain);
      PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
      for (Epoch epoch = 1; epoch <= 3 && !HasFailure(); ++epoch) pair.round(epoch);
      harness_barrier();
    }
  }
}

TEST_F(SharedCopy, carries_transfers_of_different_sizes) {
  JobLinks links;
  const Shape shape{7, 5, 3, 35 * 24'001};  // the transfers have two, two and three partitions of the sender
  Pair pair(links, "direct", shape, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  for (Epoch epoch = 1; epoch <= 10 && !HasFailure(); ++epoch) pair.round(epoch);
}

TEST_F(SharedCopy, takes_any_delay_of_either_side) {
  JobLinks links;
  Random own = own_random();
  for (int request = 0; request < 6; ++request) {
    const int from = request % 2;
    Pair pair(links, "direct", {4, 4, 4, 4 * 500'001}, MemoryKind::plain, from, 1 - from);
    PARTITA_SKIP_IF_NOT_SHARED(pair, 1 - from);
    for (Epoch epoch = 1; epoch <= 20 && !HasFailure(); ++epoch) {
      maybe_sleep(own, 200);
      if (pair.receives()) {
        pair.receiver->open(epoch);
        for (const std::int32_t t : own.permutation(4)) {
          maybe_sleep(own, 100);
          pair.expect_arrival(t, epoch);
        }
      } else {
        pair.sender->start(epoch);
        until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
        pair.buffer().fill(epoch, {0, pair.plan().total_bytes()});
        for (const std::int32_t t : own.permutation(4)) {
          maybe_sleep(own, 100);
          pair.sender->put({t, t + 1}, epoch);
        }
        pair.finish();  // overwrites the bytes at once
      }
    }
    harness_barrier();
  }
}

TEST_F(SharedCopy, costs_a_receiver_that_looks_late_nothing) {
  JobLinks links;
  Pair pair(links, "direct", {3, 3, 3, 3 * 700'000}, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  for (Epoch epoch = 1; epoch <= 5; ++epoch) {
    if (pair.receives()) pair.receiver->open(epoch);
    if (pair.sends()) {
      pair.sender->start(epoch);
      pair.put(epoch, {1, 2, 0});
      EXPECT_TRUE(pair.sender->finished()) << "nobody else has claimed a chunk";
      pair.finish();
    }
    harness_barrier();
    if (pair.receives()) {
      for (std::int32_t t = 0; t < 3; ++t) EXPECT_TRUE(pair.receiver->arrived(t, epoch)) << "at the first look";
      pair.expect_all(epoch);
    }
  }
}

TEST_F(SharedCopy, has_nothing_to_pull_before_the_put) {
  JobLinks links;
  Pair pair(links, "direct", {2, 1, 2, 2 * 500'000}, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  for (Epoch epoch = 1; epoch <= 5; ++epoch) {
    if (pair.receives()) {
      pair.receiver->open(epoch);
      for (int look = 0; look < 100; ++look) EXPECT_FALSE(pair.receiver->arrived(1, epoch));
    }
    if (pair.sends()) {
      pair.sender->start(epoch);
      pair.put(epoch, {0});
    }
    if (pair.receives()) {
      pair.expect_arrival(0, epoch);
      for (int look = 0; look < 100; ++look) EXPECT_FALSE(pair.receiver->arrived(1, epoch));
    }
    harness_barrier();
    if (pair.sends()) {
      pair.put(epoch, {1});
      pair.finish();
    }
    if (pair.receives()) pair.expect_arrival(1, epoch);
  }
}

TEST_F(SharedCopy, passes_the_wrap_around_of_epochs) {
  const Epoch before_first = 0xffffffffu - 10;
  JobLinks links(before_first);
  Pair pair(links, "direct", {2, 1, 2, 2 * 333'333}, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  Epoch epoch = before_first;
  for (int count = 0; count < 30 && !HasFailure(); ++count) {
    epoch = next(epoch);
    pair.round(epoch);
  }
}

TEST_F(SharedCopy, takes_several_threads_of_both_sides) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  JobLinks links;
  constexpr std::int32_t transports = 4;
  Pair pair(links, "direct", {transports, 1, transports, transports * 500'001}, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  for (Epoch epoch = 1; epoch <= 20 && !HasFailure(); ++epoch) {
    if (pair.receives()) {
      pair.receiver->open(epoch);
      std::vector<std::jthread> team;  // all of them look for the same partitions
      for (int thread = 0; thread < 3; ++thread) team.emplace_back([&] { pair.expect_all(epoch); });
    } else {
      pair.sender->start(epoch);
      until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
      {
        std::vector<std::jthread> team;
        for (std::int32_t thread = 0; thread < 2; ++thread) {
          team.emplace_back([&, thread] {
            for (std::int32_t t = thread; t < transports; t += 2) {
              pair.buffer().fill(epoch, pair.plan().bytes(t));
              pair.sender->put({t, t + 1}, epoch);
            }
          });
        }
      }
      pair.finish();
    }
  }
}

TEST_F(SharedCopy, takes_runs_of_any_length_from_several_threads_and_early_ones_first) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  JobLinks links;
  constexpr std::int32_t transports = 500;
  Pair pair(links, "direct", {transports, 20, transports, transports * 3001, 2}, MemoryKind::plain);
  PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
  for (Epoch epoch = 1; epoch <= 30 && !HasFailure(); ++epoch) {
    Random random(job_seed(), epoch);
    const std::vector<link::Range> runs = random_runs(random, transports);
    if (pair.receives()) {
      pair.receiver->open(epoch);
      for (std::int64_t t = runs[0].begin; t < runs[0].end; ++t) {
        pair.expect_arrival(static_cast<std::int32_t>(t), epoch);
      }
      int early = 0;
      PMPI_Send(&early, 1, MPI_INT, 0, 1, harness_comm());
      std::vector<std::jthread> team;
      for (int thread = 0; thread < 2; ++thread) team.emplace_back([&] { pair.expect_all(epoch); });
    } else {
      pair.sender->start(epoch);
      pair.put_runs(epoch, {runs[0]});
      int early = 0;  // the rest comes only when the first run has arrived
      PMPI_Recv(&early, 1, MPI_INT, 1, 1, harness_comm(), MPI_STATUS_IGNORE);
      {
        std::vector<std::jthread> team;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          team.emplace_back([&, thread] {
            for (std::size_t run = 1 + thread; run < runs.size(); run += 2) pair.put_runs(epoch, {runs[run]});
          });
        }
      }
      pair.finish();
    }
  }
}

TEST_F(SharedCopy, survives_requests_that_end_right_after_their_arrival) {
  JobLinks links;
  for (int request = 0; request < 60 && !HasFailure(); ++request) {
    Pair pair(links, "direct", {1, 1, 1, 300'000}, MemoryKind::plain);
    PARTITA_SKIP_IF_NOT_SHARED(pair, 1);
    pair.round(1);
    // No barrier: the receiver's block goes to its next request while the sender may still be in put.
  }
}

}  // namespace
}  // namespace partita::test
