// A bcast whose marks push, as in pushed_collectives_test.cpp: what is its own. The root alone marks, into the buffers
// of the others, when all of these have started; and they need nobody to reduce.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pushed_case.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

class BcastCase : public PushedCase {
 public:
  explicit BcastCase(int count, Gpu gpu = mapped) : PushedCase(Kind::bcast, count, false, gpu) {}

  static bool is_root() { return rank() == root(); }
  /// The host starts the next epoch, and does not wait until others have.
  void start_alone() { ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS); }
  /// By the hosts, but for the marks.
  void complete_first_epoch() {
    write(1);
    start();
    mark_all();
    wait();
    expect_all(1);
  }
  void start_in_kernel() const {
    CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(MPIX_Pstart(device), PARTITA_DEVICE_SUCCESS); });
  }
  /// A block prepares and marks.
  void prepare_and_mark_in_kernel() const {
    CpuKernel kernel({1, 3}, [&](unsigned) { mark_each(); });
  }
};

class PushedBcast : public testing::Test {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Hosts and kernels start epochs, the same or others on each rank, and so the root hears of them by either word.
TEST_F(PushedBcast, is_prepared_whoever_starts_an_epoch) {
  BcastCase collective(60);
  collective.create();
  for (int epoch = 1; epoch <= 16; ++epoch) {
    const bool root_by_host = epoch % 2 == 0, others_by_host = epoch % 4 < 2, prepared_by_host = epoch % 8 < 4;
    const bool by_host = BcastCase::is_root() ? root_by_host : others_by_host;
    collective.write(epoch);
    by_host ? collective.start_alone() : collective.start_in_kernel();
    if (BcastCase::is_root()) {
      if (by_host && prepared_by_host) {
        ASSERT_EQ(Partita_Pbuf_prepare(collective.request), MPI_SUCCESS);
        collective.mark_all();
      } else {
        collective.prepare_and_mark_in_kernel();
      }
    }
    by_host ? collective.wait() : collective.wait_in_kernel();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// The library makes what its kernels work with; the program's take that over.
TEST_F(PushedBcast, needs_no_device_request_where_nothing_is_marked) {
  BcastCase collective(333);
  if (BcastCase::is_root()) collective.create();
  int epoch = 0;
  const auto run_by_host = [&] {
    collective.write(++epoch);
    collective.start();
    collective.mark_all();
    collective.wait();
    for (int p = 0; p < partitions; ++p) EXPECT_TRUE(collective.has_arrived(p));
    collective.expect_all(epoch);
  };
  for (int i = 0; i < 3; ++i) run_by_host();
  if (!BcastCase::is_root()) collective.create();
  collective.write(++epoch);
  collective.start_and_mark_in_kernel();
  collective.wait_in_kernel();
  collective.expect_all(epoch);
  run_by_host();
  collective.free_device_request();
  if (BcastCase::is_root()) collective.create();
  run_by_host();
  if (BcastCase::is_root()) collective.free_device_request();
}

/// Nor where it has started before there was anybody to match with.
TEST_F(PushedBcast, may_start_before_the_match) {
  std::optional<BcastCase> collective;
  if (!BcastCase::is_root()) {
    collective.emplace(7);
    collective->start_alone();
  }
  harness_barrier();
  if (BcastCase::is_root()) {
    collective.emplace(7);
    collective->create();
    collective->write(1);
    collective->start();
    collective->mark_all();
  }
  collective->wait();
  collective->expect_all(1);
  if (BcastCase::is_root()) collective->free_device_request();
}

/// Which of the two makes what the library's kernels work with is open, and the other one finds it made or not at all.
TEST_F(PushedBcast, is_asked_for_by_one_thread_while_another_waits) {
  for (int i = 0; i < 20; ++i) {
    BcastCase collective(30);
    if (BcastCase::is_root()) collective.create();
    ASSERT_EQ(Partita_Match(&collective.request), MPI_SUCCESS);
    collective.write(1);
    collective.start_alone();
    std::thread asking;
    if (!BcastCase::is_root()) {
      asking = std::thread([&] {
        for (int p = 0; p < partitions; ++p) {
          while (!collective.has_arrived(p)) std::this_thread::yield();
        }
      });
    } else {
      ASSERT_EQ(Partita_Pbuf_prepare(collective.request), MPI_SUCCESS);
      collective.mark_all();
    }
    collective.wait();
    if (asking.joinable()) asking.join();
    collective.expect_all(1);
    if (BcastCase::is_root()) collective.free_device_request();
  }
}

/// No copy of the GPU's ends meanwhile, by which the host would find something to launch for.
TEST_F(PushedBcast, arrives_in_kernels_though_nothing_is_launched) {
  BcastCase collective(100);
  collective.create();
  for (const bool by_host : {false, true}) {
    const int epoch = by_host ? 2 : 1;
    FakeGpu::instance().hold_all(true);
    const std::uint64_t launched = FakeGpu::instance().launches();
    collective.write(epoch);
    by_host ? collective.start_alone() : collective.start_in_kernel();
    if (BcastCase::is_root()) collective.prepare_and_mark_in_kernel();
    for (int p = 0; p < partitions; ++p) {
      for (int flag = 0; flag == 0; std::this_thread::yield()) {
        ASSERT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
      }
    }
    collective.expect_all(epoch);
    collective.wait_in_kernel();
    EXPECT_EQ(FakeGpu::instance().launches(), launched);
    FakeGpu::instance().hold_all(false);
    if (by_host) collective.wait();
  }
  collective.free_device_request();
}

/// What came is read at leisure: the root waits, in the host or in a kernel.
TEST_F(PushedBcast, leaves_a_buffer_alone_until_its_rank_starts_again) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  BcastCase collective(50);
  collective.create();
  for (int epoch = 1; epoch <= 4; ++epoch) {
    const bool late = rank() == (root() + 1) % ranks();
    collective.write(epoch);
    if (!late) collective.start_alone();
    std::thread marking;
    if (BcastCase::is_root()) {
      marking = std::thread([&] {
        if (epoch % 2 == 0) {
          EXPECT_EQ(Partita_Pbuf_prepare(collective.request), MPI_SUCCESS);
          collective.mark_all();
        } else {
          collective.prepare_and_mark_in_kernel();
        }
      });
    }
    harness_barrier();
    if (late) {
      if (epoch > 1) collective.expect_all(epoch - 1);
      collective.start_alone();
    }
    if (marking.joinable()) marking.join();
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

TEST_F(PushedBcast, goes_on_with_another_device_request) {
  BcastCase collective(50);
  int epoch = 0;
  for (int turn = 0; turn < 3; ++turn) {
    collective.create();
    for (int i = 0; i <= turn; ++i) {
      collective.write(++epoch);
      collective.start_and_mark_in_kernel();
      collective.wait_in_kernel();
      collective.expect_all(epoch);
    }
    collective.free_device_request();
  }
}

TEST_F(PushedBcast, is_complete_for_ranks_that_look_when_the_root_has_freed) {
  for (int i = 0; i < 6; ++i) {
    BcastCase collective(400);
    if (i % 2 == 0 || BcastCase::is_root()) collective.create();
    collective.write(1);
    collective.start();
    collective.mark_all();
    if (BcastCase::is_root()) {
      collective.wait();
      EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
    }
    BcastCase behind(4);
    ASSERT_EQ(Partita_Match(&behind.request), MPI_SUCCESS);  // the root's bye has come before
    if (BcastCase::is_root()) continue;
    if (i % 4 == 0) collective.wait_in_kernel();
    collective.wait();
    collective.expect_all(1);
    EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "has freed its request");
  }
}

// ---- What goes wrong -----------------------------------------------------------------------------------------------

TEST_F(PushedBcast, is_marked_by_the_root_alone) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  BcastCase collective(4);
  collective.create();
  collective.complete_first_epoch();
  harness_barrier();  // who gives up releases the kernels of the others
  if (BcastCase::is_root()) return;
  EXPECT_EQ(MPIX_Pready(2, collective.device), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "which the root alone does", "partition 2");
}

/// It moves nothing: one of the others may still read what came.
TEST_F(PushedBcast, is_not_marked_before_all_have_started) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  BcastCase collective(4);
  collective.create();
  collective.write(1);
  if (BcastCase::is_root()) {
    collective.start_alone();
    EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_UNPREPARED);
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "without Pbuf_prepare",
                 "partition 0");
  }
  harness_barrier();
}

TEST_F(PushedBcast, is_prepared_in_an_epoch_only) {
  BcastCase collective(4);
  collective.create();
  if (BcastCase::is_root()) {
    EXPECT_EQ(MPIX_Pbuf_prepare(collective.device), PARTITA_DEVICE_ERR_INACTIVE);
    EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "called Pbuf_prepare before");
  }
  harness_barrier();
}

/// There is nothing to fall back on: all ranks hear which buffer it is.
TEST_F(PushedBcast, needs_buffers_that_can_be_mapped) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  const int which = (root() + 1) % ranks();
  BcastCase collective(4, rank() == which ? blocks_mapped : mapped);
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_OTHER,
               "partita_algorithm is \"push\"", "cannot be mapped by other processes");
  harness_barrier();
}

TEST_F(PushedBcast, is_inactive_where_a_start_has_failed) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  const int which = (root() + 1) % ranks();
  BcastCase collective(4, rank() == which ? blocks_mapped : mapped);
  if (BcastCase::is_root()) {
    EXPECT_EQ(Partita_Match(&collective.request), MPI_SUCCESS);
  } else {
    EXPECT_ERROR(Partita_Match(&collective.request), MPI_ERR_OTHER, "cannot be mapped by other processes");
  }
  for (int i = 0; i < 2 && !BcastCase::is_root(); ++i) {
    EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_OTHER, "cannot be mapped by other processes");
  }
  harness_barrier();
}

/// A wait of the host's has no kernel behind it, and hears of it all the same.
TEST_F(PushedBcast, ends_where_the_root_has_given_up) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  for (const bool kernel_waits : {false, true}) {
    BcastCase collective(4);
    if (kernel_waits || BcastCase::is_root()) collective.create();
    collective.write(1);
    collective.start();
    harness_barrier();
    if (BcastCase::is_root()) {
      collective.mark(1);
      EXPECT_EQ(MPIX_Pready(1, collective.device), PARTITA_DEVICE_ERR_TWICE);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "twice in an epoch");
      continue;
    }
    if (kernel_waits) {
      EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_ERR_ABORTED);
    }
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "gave its request up");
  }
}

/// The root cannot go on without it.
TEST_F(PushedBcast, ends_where_another_rank_has_freed) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  for (const bool kernel_waits : {false, true}) {
    BcastCase collective(4);
    collective.create();
    collective.complete_first_epoch();
    if (BcastCase::is_root()) kernel_waits ? collective.start_in_kernel() : collective.start_alone();
    harness_barrier();
    if (!BcastCase::is_root()) {
      EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
      harness_barrier();
      continue;
    }
    if (kernel_waits) {
      EXPECT_EQ(MPIX_Pbuf_prepare(collective.device), PARTITA_DEVICE_ERR_ABORTED);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "has freed its request");
    } else {
      EXPECT_ERROR(Partita_Pbuf_prepare(collective.request), MPI_ERR_REQUEST, "has freed its request");
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "has freed its request");
    }
    harness_barrier();
  }
}

/// Nor has it a kernel to release, where the program has made no device request yet.
TEST_F(PushedBcast, ends_where_another_rank_has_freed_before_the_root_marks) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  BcastCase collective(4);
  ASSERT_EQ(Partita_Match(&collective.request), MPI_SUCCESS);
  if (BcastCase::is_root()) collective.start_alone();
  harness_barrier();
  if (!BcastCase::is_root()) {
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
    harness_barrier();
    return;
  }
  EXPECT_ERROR(Partita_Pbuf_prepare(collective.request), MPI_ERR_REQUEST, "has freed its request");
  EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "has freed its request");
  harness_barrier();
}

/// Nor does it have one that watches, where another rank is still to come.
TEST_F(PushedBcast, tells_of_a_root_that_has_freed_before_all_are_there) {
  if (ranks() < 3) GTEST_SKIP() << "needs three ranks";
  const bool late = rank() == (root() + 2) % ranks();
  std::optional<BcastCase> collective;
  if (!late) collective.emplace(4);
  if (!late && !BcastCase::is_root()) collective->start_alone();
  harness_barrier();
  if (BcastCase::is_root()) {
    EXPECT_EQ(Partita_Request_free(&collective->request), MPI_SUCCESS);
  } else if (!late) {
    const auto first_error = [&] {
      int code = MPI_SUCCESS;
      for (int flag = 0; code == MPI_SUCCESS && flag == 0; std::this_thread::yield()) {
        code = Partita_Parrived(collective->request, 0, &flag);
      }
      return code;
    };
    EXPECT_ERROR(first_error(), MPI_ERR_REQUEST, "freed its request");
    EXPECT_ERROR(Partita_Pbuf_prepare(collective->request), MPI_ERR_REQUEST, "freed its request");
  }
  harness_barrier();
  if (late) collective.emplace(4);
  if (!BcastCase::is_root()) static_cast<void>(Partita_Request_free(&collective->request));  // which may tell, too
}

class PushedBcastTimeout : public PushedBcast {};

/// In the entry timeout, with a short limit: the others start nothing.
TEST_F(PushedBcastTimeout, ends_what_waits_for_their_start) {
  for (const bool by_host : {false, true}) {
    BcastCase collective(4);
    harness_barrier();  // the limit holds for the making, too: nobody comes late to it
    collective.create();
    if (!BcastCase::is_root()) continue;
    by_host ? collective.start_alone() : collective.start_in_kernel();
    if (by_host) {
      EXPECT_ERROR(Partita_Pbuf_prepare(collective.request), MPI_ERR_OTHER, "took longer than", "push, epoch 1");
    } else {
      EXPECT_EQ(MPIX_Pbuf_prepare(collective.device), PARTITA_DEVICE_ERR_TIMEOUT);
    }
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "longer than");
  }
}

/// Likewise, the root marks nothing.
TEST_F(PushedBcastTimeout, ends_waits_for_the_roots_marks) {
  for (const bool kernel_waits : {false, true}) {
    BcastCase collective(4);
    harness_barrier();
    if (kernel_waits || BcastCase::is_root()) collective.create();
    if (BcastCase::is_root()) continue;
    collective.start();
    if (kernel_waits) {
      EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_ERR_TIMEOUT);
    }
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "longer than",
                 "0 of 3 partitions have come");
  }
}

}  // namespace
}  // namespace partita::test
