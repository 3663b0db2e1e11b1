// What leaves before its neighbours over link mpi: the sender is done with it whatever the receiver does.
#include <gtest/gtest.h>
#include <mpi.h>

#include "contract/job_links.hpp"
#include "link/mpi/copied_sends.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

const Shape shape_of_blocks{16, 16, 16, 128 * 1024, 2};  // blocks of eight
constexpr int plain_tag = 5;

class MpiParts : public testing::Test {
 protected:
  void TearDown() override { harness_barrier(); }
};

/// Each but the first of every second block before the first.
std::vector<link::Range> runs_in_parts() {
  return {{1, 2}, {2, 8}, {15, 16}, {9, 15}, {8, 9}, {0, 1}};
}

TEST_F(MpiParts, the_sender_finishes_while_the_receiver_is_in_a_barrier) {
  JobLinks links;
  Pair pair(links, "mpi", shape_of_blocks, MemoryKind::plain);
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    if (pair.receives()) {
      pair.receiver->open(epoch);
      harness_barrier();
      pair.expect_all(epoch);
    } else {
      pair.sender->start(epoch);
      pair.put_runs(epoch, runs_in_parts());
      pair.finish();
      harness_barrier();
    }
  }
}

TEST_F(MpiParts, what_comes_before_its_epoch_waits_for_that) {
  JobLinks links;
  Pair pair(links, "mpi", shape_of_blocks, MemoryKind::plain);
  constexpr Epoch epochs = 5;
  if (pair.sends()) {
    for (Epoch epoch = 1; epoch <= epochs; ++epoch) {
      pair.sender->start(epoch);
      pair.put_runs(epoch, runs_in_parts());
      pair.finish();
    }
  }
  harness_barrier();
  for (Epoch epoch = 1; pair.receives() && epoch <= epochs; ++epoch) {
    pair.receiver->open(epoch);
    pair.expect_all(epoch);
    for (int look = 0; look < 100; ++look) EXPECT_TRUE(pair.receiver->arrived(0, epoch));
    pair.expect_all(epoch);  // nothing of the next epoch has touched it
  }
}

TEST_F(MpiParts, a_receiver_goes_with_pieces_still_under_way) {
  JobLinks links;
  for (int request = 0; request < 20; ++request) {
    Pair pair(links, "mpi", shape_of_blocks, MemoryKind::plain);
    if (pair.sends()) {
      pair.sender->start(1);
      pair.put_runs(1, {{3, 4}, {5, 7}});
    } else {
      pair.receiver->open(1);
      if (request % 2 == 0) pair.expect_arrival(3, 1);
    }
    harness_barrier();
    // The receive of its blocks would wait for ever: complete them.
    if (pair.sends()) pair.put_runs(1, {{0, 3}, {4, 5}, {7, 8}, {8, 16}});
    if (pair.receives() && request % 4 < 2) pair.expect_all(1);
    harness_barrier();
  }
}

/// Larger messages than links send so are kept by every MPI until they are received.
TEST_F(MpiParts, copies_are_kept_until_the_mpi_has_taken_them) {
  Settings settings;
  World world(MPI_COMM_WORLD);
  memory::HostMemory host_memory(world);
  const auto device_memory = memory::make_device_memory(world, host_memory);
  Progress progress(0);
  link::mpi::CopiedSends copied({settings, world, host_memory, *device_memory, progress});
  std::vector<std::byte> bytes(1 << 20);
  if (rank() == 0) {
    for (int round = 1; round <= 20; ++round) {
      std::fill(bytes.begin(), bytes.end(), std::byte(round));
      copied.send(1, plain_tag, std::span(bytes).first(1), std::span(bytes).subspan(1));
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
    EXPECT_TRUE(progress.wanted());
    harness_barrier();
    while (progress.wanted()) copied.progress();
    EXPECT_FALSE(copied.progress());
  } else {
    harness_barrier();
    for (int round = 1; round <= 20; ++round) {
      PMPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, plain_tag, world.data(), MPI_STATUS_IGNORE);
      EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte(round)), std::ssize(bytes));
    }
  }
}

}  // namespace
}  // namespace partita::test
