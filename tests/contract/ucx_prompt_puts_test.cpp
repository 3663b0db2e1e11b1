// Bytes on their way over link ucx keep the thread for progress awake, and have it take steps, whatever epochs are
// open: UCX goes on with them in our calls alone.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>

#include "contract/job_links.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr Epoch epoch = 1;
const Shape large_shape{1, 1, 1, 64'000'000};  // more than sockets hold

/// Takes steps of `pair`'s link until `condition` holds, ten seconds at most; returns whether it does.
template <class Condition>
bool holds_within_limit(const Pair& pair, Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    pair.link().progress();
  }
  return true;
}

/// A barrier in which both sides take steps: what one of them waits for may need steps of the other.
void barrier_with_steps(const Pair& pair) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  PMPI_Ibarrier(harness_comm(), &barrier);
  until(pair.link(), "both sides are there", [&] {
    int there = 0;
    PMPI_Test(&barrier, &there, MPI_STATUS_IGNORE);
    return there != 0;
  });
}

/// Both sides take steps until the sender knows that the receiver is ready.
void open(const Pair& pair) {
  if (pair.receives()) pair.receiver->open(epoch);
  if (pair.sends()) {
    pair.sender->start(epoch);
    until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
  }
  barrier_with_steps(pair);
}

TEST(UcxPromptPuts, the_thread_looks_soon_while_bytes_are_under_way_and_no_longer) {
  Progress progress(1);
  progress.start_thread();
  JobLinks links(no_epoch, &progress);
  Pair pair(links, "ucx", large_shape, MemoryKind::plain);
  if (pair.refusal()) GTEST_SKIP() << *pair.refusal();
  open(pair);
  EXPECT_FALSE(progress.prompt());
  if (pair.sends()) {
    pair.buffer().fill(epoch, {0, large_shape.total_bytes});
    pair.sender->put({0, 1}, epoch);
    EXPECT_TRUE(holds_within_limit(pair, [&] { return progress.prompt() && progress.wanted(); }));
    EXPECT_FALSE(pair.sender->finished()) << "the receiver has taken no steps yet";
  }
  harness_barrier();
  if (pair.receives()) pair.expect_all(epoch);
  if (pair.sends()) pair.finish();
  EXPECT_TRUE(holds_within_limit(pair, [&] { return !progress.prompt() && !progress.wanted(); }));
  barrier_with_steps(pair);  // the flush of one side's last flags ends in steps of the other
}

}  // namespace
}  // namespace partita::test
