// Collectives whose marks push, with threads for kernels and the whole library behind them, on memory that stands for
// a GPU's: whoever waits reduces, the host's Wait, a kernel's, or nobody.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pushed_case.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

class PushedCollectives : public testing::Test {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Where nothing depends on what is collected the tests take an allreduce; these take every collective.
class PushedCollectivesOf : public PushedCollectives, public testing::WithParamInterface<Kind> {};
INSTANTIATE_TEST_SUITE_P(PushedCollectives, PushedCollectivesOf, testing::ValuesIn(kinds),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

/// Also where the library's epochs pass 2^32 meanwhile, in the entry wrap.
TEST_P(PushedCollectivesOf, go_on_epoch_after_epoch_where_hosts_wait) {
  for (const int count : {1, 77, 5000}) {
    PushedCase collective(GetParam(), count);
    ASSERT_EQ(collective.init_code, MPI_SUCCESS);
    collective.create();
    EXPECT_EQ(told(collective.request, "partita_algorithm"), "push");
    EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "kernel");
    for (int epoch = 1; epoch <= 7; ++epoch) {
      collective.write(epoch);
      collective.start();
      collective.mark_all();
      collective.wait();
      collective.expect_all(epoch);
    }
    collective.free_device_request();
  }
}

TEST_P(PushedCollectivesOf, are_marked_by_threads_warps_blocks_and_ranges) {
  PushedCase collective(GetParam(), 101);
  collective.create();
  int epoch = 0;
  for (const MarkBy by : marks_by) {
    collective.write(++epoch);
    collective.start();
    collective.mark_all(by);
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// A bcast has one buffer.
class PushedCollectivesInPlace : public PushedCollectivesOf {};
INSTANTIATE_TEST_SUITE_P(PushedCollectives, PushedCollectivesInPlace,
                         testing::Values(Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(PushedCollectivesInPlace, find_their_data_in_the_receive_buffer) {
  for (const bool kernel_waits : {false, true}) {
    PushedCase collective(GetParam(), 501, true);
    collective.create();
    for (int epoch = 1; epoch <= 3; ++epoch) {
      collective.write(epoch);
      collective.start();
      kernel_waits ? collective.mark_and_wait_in_kernel() : collective.mark_all();
      collective.wait();
      collective.expect_all(epoch);
    }
    collective.free_device_request();
  }
}

/// The host only completes the epoch.
TEST_P(PushedCollectivesOf, are_reduced_by_the_blocks_of_a_kernel_that_wait) {
  for (const int count : {1, 6000}) {
    PushedCase collective(GetParam(), count);
    collective.create();
    for (int epoch = 1; epoch <= 4; ++epoch) {
      collective.write(epoch);
      collective.start();
      collective.mark_and_wait_in_kernel();
      collective.expect_all(epoch);
      collective.wait();
    }
    collective.free_device_request();
  }
}

TEST_P(PushedCollectivesOf, are_awaited_partition_by_partition_in_kernels) {
  PushedCase collective(GetParam(), 300);
  collective.create();
  collective.write(1);
  collective.start();
  CpuKernel kernel({partitions, 2}, [&](unsigned) {
    const int partition = partitions - 1 - static_cast<int>(device::grid_rank());
    if (collective.may_mark()) {
      EXPECT_EQ(MPIX_Pready_block(partition, collective.device), PARTITA_DEVICE_SUCCESS);
    }
    EXPECT_EQ(MPIX_Pwait_partition(partition, collective.device), PARTITA_DEVICE_SUCCESS);
    int flag = 0;
    EXPECT_EQ(MPIX_Parrived(collective.device, partition, &flag), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(flag, 1);
  });
  kernel.end();
  collective.wait();
  collective.expect_all(1);
  collective.free_device_request();
}

/// The host calls nothing; between such epochs it opens its own.
TEST_P(PushedCollectivesOf, are_started_by_kernels_without_the_host) {
  PushedCase collective(GetParam(), 40);
  collective.create();
  int epoch = 0;
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 3; ++i) {
      collective.write(++epoch);
      CpuKernel kernel({1, 2}, [&](unsigned) {
        EXPECT_EQ(MPIX_Pstart(collective.device), PARTITA_DEVICE_SUCCESS);
        collective.mark_each();
        EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_SUCCESS);
      });
      kernel.end();
      collective.expect_all(epoch);
    }
    collective.write(++epoch);
    collective.start();
    collective.mark_all();
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// Its wait has begun before anything is marked. The library leaves it 10 ms from the first mark on; an epoch that took
/// longer here says nothing.
TEST_F(PushedCollectives, are_left_to_a_kernel_that_waits) {
  using Clock = std::chrono::steady_clock;
  PushedCase collective(40);
  collective.create();
  constexpr int epochs = 20;
  int in_time = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const std::uint64_t launched = FakeGpu::instance().launches();
    collective.write(epoch);
    collective.start();
    const Epoch before = load_word(&collective.device.host->completed);
    CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_SUCCESS); });
    while (load_word(&collective.device.host->awaited) != next(before)) std::this_thread::yield();
    harness_barrier();
    const auto begin = Clock::now();
    collective.mark_all();
    kernel.end();
    const std::uint64_t launched_by_then = FakeGpu::instance().launches();
    if (Clock::now() - begin < std::chrono::milliseconds(10)) {
      ++in_time;
      EXPECT_EQ(launched_by_then, launched);
    }
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
  if (in_time == 0) GTEST_SKIP() << "each epoch took 10 ms or more";
}

/// A kernel waits for all, and the first partitions are marked when the last ones have arrived.
TEST_F(PushedCollectives, arrive_though_a_kernel_that_waits_stands_at_others) {
  PushedCase collective(40);
  collective.create();
  for (int epoch = 1; epoch <= 2; ++epoch) {
    collective.write(epoch);
    collective.start();
    const Epoch before = load_word(&collective.device.host->completed);
    CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_SUCCESS); });
    while (load_word(&collective.device.host->awaited) != next(before)) std::this_thread::yield();
    for (int p = partitions - 1; p >= 0; --p) {
      collective.mark(p);
      while (!collective.has_arrived(p)) std::this_thread::yield();
    }
    kernel.end();
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// When it looks kernels have ended its epoch, and later ones.
TEST_F(PushedCollectives, are_complete_for_a_host_that_kernels_have_overtaken) {
  PushedCase collective(40);
  collective.create();
  int epoch = 0;
  for (int turn = 0; turn < 3; ++turn) {
    collective.write(++epoch);
    collective.start();
    collective.mark_and_wait_in_kernel();
    for (int ahead = 0; ahead <= turn; ++ahead) {
      collective.write(++epoch);
      collective.start_and_mark_in_kernel();
      collective.wait_in_kernel();
    }
    for (int p = 0; p < partitions; ++p) EXPECT_TRUE(collective.has_arrived(p));
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// The host has started nothing, and calls nothing.
TEST_P(PushedCollectivesOf, of_kernels_arrive_where_nobody_waits) {
  PushedCase collective(GetParam(), 1000);
  collective.create();
  for (int epoch = 1; epoch <= 3; ++epoch) {
    collective.write(epoch);
    collective.start_and_mark_in_kernel();
    for (int p = 0; p < partitions; ++p) {
      for (int flag = 0; flag == 0; std::this_thread::yield()) {
        ASSERT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
      }
    }
    collective.expect_all(epoch);
    collective.wait_in_kernel();  // for the end, which the last result comes before
  }
  collective.free_device_request();
}

/// A program's kernel may stand on the GPU and look for what steps do, so they make nothing there.
TEST_F(PushedCollectives, find_what_steps_need_made_ahead) {
  PushedCase collective(1000);
  const std::uint64_t copied_before = FakeGpu::instance().copies_with_host();
  const std::uint64_t launched_before = FakeGpu::instance().launches();
  collective.create();
  while (FakeGpu::instance().kernels_under_way() > 0) std::this_thread::yield();
  EXPECT_EQ(FakeGpu::instance().launches() - launched_before, 1U);
  EXPECT_GE(FakeGpu::instance().copies_with_host() - copied_before, static_cast<std::uint64_t>(ranks() - 1));
  const std::uint64_t made = FakeGpu::instance().streams_made();
  for (int epoch = 1; epoch <= 2; ++epoch) {
    collective.write(epoch);
    if (epoch == 2) collective.start();
    const std::uint64_t launched = FakeGpu::instance().launches();
    epoch == 1 ? collective.start_and_mark_in_kernel() : collective.mark_all();
    for (int p = 0; p < partitions; ++p) {
      for (int flag = 0; flag == 0; std::this_thread::yield()) {
        ASSERT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
      }
    }
    EXPECT_GT(FakeGpu::instance().launches(), launched);
    epoch == 1 ? collective.wait_in_kernel() : collective.wait();
  }
  EXPECT_EQ(FakeGpu::instance().streams_made(), made);
  collective.free_device_request();
}

/// Rank 0 marks when nothing runs on the GPUs of the others, which have marked and look again and again.
TEST_F(PushedCollectives, leave_nothing_on_the_gpu_that_waits_for_other_ranks) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  PushedCase collective(9);
  collective.create();
  collective.write(1);
  collective.start();
  if (rank() != 0) {
    const std::uint64_t launched = FakeGpu::instance().launches();
    collective.mark_all();
    while (FakeGpu::instance().launches() == launched) EXPECT_FALSE(collective.test());
    while (FakeGpu::instance().kernels_under_way() > 0) EXPECT_FALSE(collective.test());
  }
  harness_barrier();
  if (rank() == 0) collective.mark_all();
  while (!collective.test()) std::this_thread::yield();
  collective.expect_all(1);
  collective.free_device_request();
}

/// All have marked, and the ranks have met elsewhere.
TEST_P(PushedCollectivesOf, arrive_where_nobody_waits) {
  for (int round = 0; round < 3; ++round) {
    PushedCase collective(GetParam(), 1000);
    collective.create();
    for (int epoch = 1; epoch <= 2; ++epoch) {
      collective.write(epoch);
      collective.start();
      collective.mark_all();
      harness_barrier();
      for (int p = 0; p < partitions; ++p) {
        while (!collective.has_arrived(p)) std::this_thread::yield();
      }
      collective.expect_all(epoch);
      collective.wait();
    }
    collective.free_device_request();
  }
}

/// The next one is marked only then.
TEST_P(PushedCollectivesOf, arrive_partition_by_partition) {
  PushedCase collective(GetParam(), 20);
  collective.create();
  for (int epoch = 1; epoch <= 2; ++epoch) {
    collective.write(epoch);
    collective.start();
    for (int p = partitions - 1; p >= 0; --p) {
      if (collective.may_mark()) {
        EXPECT_FALSE(collective.has_arrived(p));
      }
      collective.mark(p);
      while (!collective.has_arrived(p)) std::this_thread::yield();
    }
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// One rank marks when the others are in Wait, which has launched a kernel that finds nothing, or, where these mark
/// nothing, has looked.
TEST_P(PushedCollectivesOf, wait_for_a_rank_that_marks_late) {
  PushedCase collective(GetParam(), 9);
  collective.create();
  collective.write(1);
  collective.start();
  const bool is_bcast = GetParam() == Kind::bcast;
  const bool late = rank() == (is_bcast ? root() : 0);
  const auto looks = [&] { return is_bcast ? FakeGpu::instance().copies() : FakeGpu::instance().launches(); };
  const std::uint64_t looked = looks();
  if (!late) collective.mark_all();
  std::thread beside([&] {
    // Wait launches once all is marked here, and the engine only when a look has found something.
    while (!late && looks() == looked) std::this_thread::yield();
    harness_barrier();
    if (late) collective.mark_all();
  });
  collective.wait();
  beside.join();
  collective.expect_all(1);
  collective.free_device_request();
}

TEST_F(PushedCollectives, may_start_before_there_is_a_device_request) {
  PushedCase collective(5);
  collective.write(1);
  collective.start();
  collective.create();
  collective.mark_all();
  collective.wait();
  collective.expect_all(1);
  collective.free_device_request();
}

TEST_F(PushedCollectives, go_on_with_another_device_request) {
  PushedCase collective(50);
  int epoch = 0;
  for (int turn = 0; turn < 3; ++turn) {
    collective.create();
    for (int i = 0; i <= turn; ++i) {
      collective.write(++epoch);
      collective.start();
      collective.mark_all();
      collective.wait();
      collective.expect_all(epoch);
    }
    collective.free_device_request();
  }
}

TEST_P(PushedCollectivesOf, of_no_elements_are_complete_when_all_have_marked) {
  PushedCase collective(GetParam(), 0);
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  for (int epoch = 1; epoch <= 3; ++epoch) {
    collective.start();
    collective.mark_all();
    collective.wait();
  }
  collective.free_device_request();
}

}  // namespace
}  // namespace partita::test
