// What goes wrong with collectives whose marks push, as in pushed_collectives_test.cpp.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sys/mman.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/pushed_case.hpp"

namespace partita::test {
namespace {

class PushedMistakes : public testing::Test {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_F(PushedMistakes, marks_without_a_start_are_refused_and_told) {
  PushedCase collective(4);
  collective.create();
  EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_INACTIVE);
  EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "before Start or Pstart", "partition 0");
}

TEST_F(PushedMistakes, a_second_mark_is_refused_and_told) {
  PushedCase collective(4);
  collective.create();
  collective.write(1);
  collective.start();
  collective.mark(1);
  CpuKernel kernel({1, 2},
                   [&](unsigned) { EXPECT_EQ(MPIX_Pready_block(1, collective.device), PARTITA_DEVICE_ERR_TWICE); });
  kernel.end();
  EXPECT_EQ(MPIX_Pready_warp(1, collective.device), PARTITA_DEVICE_ERR_TWICE);
  harness_barrier();  // all have marked: who gives up releases the kernels of the others
  EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "twice in an epoch", "partition 1");
}

TEST_F(PushedMistakes, partitions_that_do_not_exist_are_refused) {
  for (int call = 0; call < 7; ++call) {
    PushedCase collective(4);
    collective.create();
    int flag = 0;
    const int code = call == 0   ? MPIX_Pready(partitions, collective.device)
                     : call == 1 ? MPIX_Pready_block(-1, collective.device)
                     : call == 2 ? MPIX_Pready_warp(partitions, collective.device)
                     : call == 3 ? MPIX_Pready_range(1, partitions, collective.device)
                     : call == 4 ? MPIX_Pwait_partition(-1, collective.device)
                     : call == 5 ? MPIX_Parrived(collective.device, partitions, &flag)
                                 : MPIX_Pready_thread(-3, collective.device);
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_PARTITION) << call;
    EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER,
                 "a partition that the request does not have");
  }
}

TEST_F(PushedMistakes, a_call_for_all_of_it_is_refused) {
  PushedCase collective(4);
  collective.create();
  EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_COLLECTIVE);
  EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "whose partitions kernels mark");
}

TEST_F(PushedMistakes, an_epoch_is_started_once) {
  PushedCase collective(4);
  collective.create();
  EXPECT_EQ(MPIX_Pstart(collective.device), PARTITA_DEVICE_SUCCESS);
  if (rank() == 0) {
    EXPECT_EQ(MPIX_Pstart(collective.device), PARTITA_DEVICE_ERR_ACTIVE);
    EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "before the one before was complete");
  }
  harness_barrier();  // what another rank gives up would be told in place of the mistake
}

TEST_F(PushedMistakes, hosts_do_not_mark) {
  PushedCase collective(4);
  collective.create();
  collective.write(1);
  collective.start();
  EXPECT_ERROR(Partita_Pready(0, collective.request), MPI_ERR_REQUEST, "");
  EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "active already");
  collective.mark_all();
  collective.wait();
  collective.expect_all(1);
  collective.free_device_request();
}

TEST_F(PushedMistakes, a_freed_or_cleared_one_is_found_freed) {
  PushedCase collective(4);
  collective.create();
  const MPIX_Prequest copy = collective.device;
  collective.free_device_request();
  for (const MPIX_Prequest& gone : {copy, collective.device}) {
    int flag = 0;
    EXPECT_EQ(MPIX_Pready(0, gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pready_block(0, gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pready_range(0, 1, gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pwait(gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pwait_partition(0, gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pstart(gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pbuf_prepare(gone), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Parrived(gone, 0, &flag), PARTITA_DEVICE_ERR_FREED);
  }
}

TEST_F(PushedMistakes, no_queue_takes_one) {
  PushedCase collective(4);
  collective.create();
  FakeWorker stream;
  void* native = &stream;
  for (const bool of_host : {true, false}) {
    Partita_Queue queue = PARTITA_QUEUE_NULL;
    ASSERT_EQ(of_host ? Partita_Queue_init(&queue, PARTITA_QUEUE_HOST, nullptr)
                      : Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, &native),
              MPI_SUCCESS);
    EXPECT_ERROR(Partita_Enqueue_start(queue, &collective.request), MPI_ERR_REQUEST, "request 0", "marks push",
                 "no queue", "MPIX_Pstart");
    EXPECT_EQ(Partita_Queue_free(&queue), MPI_SUCCESS);
  }
  collective.write(1);
  collective.start();
  collective.mark_all();
  collective.wait();
  collective.expect_all(1);
  collective.free_device_request();
}

/// Where none is open a wait does nothing.
TEST_F(PushedMistakes, a_wait_without_an_epoch_returns_at_once) {
  PushedCase collective(4);
  collective.create();
  int flag = 0;
  EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pwait_partition(0, collective.device), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Parrived(collective.device, 0, &flag), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(flag, 1);
  collective.free_device_request();
}

TEST_F(PushedMistakes, only_partitioned_collectives_are_pushed) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  PMPI_Info_set(info, "partita_algorithm", "push");
  const FakeGpuBuffer buffer(mapped, 1024);
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(
      Partita_Allreduce_init(buffer.data(), buffer.data() + 512, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request),
      MPI_ERR_INFO_VALUE, "\"push\"", "partitioned");
  PMPI_Info_free(&info);
}

TEST_F(PushedMistakes, different_algorithms_are_heard_of) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  Case collective(Kind::allreduce, 4, false, mapped, rank() == 0 ? "push" : "packets");
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST,
               "algorithm push, in 3 partitions", "algorithm packets");
  harness_barrier();  // some have the same one, and would hear of a free first
}

TEST_F(PushedMistakes, a_rank_may_free_as_soon_as_its_own_epoch_is_complete) {
  for (int i = 0; i < 10; ++i) {
    PushedCase collective(400);
    collective.create();
    collective.write(1);
    collective.start();
    collective.mark_all();
    collective.wait();
    if (i % 2 == 0) collective.free_device_request();  // else it goes with the request
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
    collective.expect_all(1);
  }
}

TEST_F(PushedMistakes, a_start_is_refused_where_another_rank_has_freed) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  PushedCase collective(4);
  collective.create();
  if (rank() == 0) {
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  }
  PushedCase behind(4);
  ASSERT_EQ(Partita_Match(&behind.request), MPI_SUCCESS);  // messages between two ranks keep their order
  if (rank() == 0) return;
  EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "has freed its request", "epoch 1");
  collective.free_device_request();
}

/// Kernels know nothing of the epoch yet.
TEST_F(PushedMistakes, a_wait_ends_where_another_rank_has_freed_though_nothing_is_marked_here) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  PushedCase collective(4);
  collective.create();
  if (rank() != 0) collective.start();
  harness_barrier();
  if (rank() == 0) {
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  } else {
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "has freed its request");
  }
}

/// Rank 0 marks twice, hears of it, and the others' kernels and hosts are released.
TEST_F(PushedMistakes, those_who_wait_for_a_rank_that_has_given_up_are_released) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  for (const bool kernel_waits : {false, true}) {
    PushedCase collective(4);
    collective.create();
    collective.write(1);
    collective.start();
    if (rank() != 0) collective.mark_all();
    harness_barrier();  // the others have marked before this one gives up
    if (rank() == 0) {
      collective.mark(0);
      EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_TWICE);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "twice in an epoch");
      continue;
    }
    if (kernel_waits) {
      EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_ERR_ABORTED);
    }
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "gave its request up");
  }
}

class PushedTimeout : public PushedMistakes {};

/// In the entry timeout, with a short limit: rank 1 never marks.
TEST_F(PushedTimeout, ends_waits_of_hosts_and_kernels) {
  for (const bool kernel_waits : {false, true}) {
    PushedCase collective(4);
    harness_barrier();  // the limit holds for the making, too: nobody comes late to it
    collective.create();
    if (rank() != 0) continue;
    collective.start();
    collective.mark_all();
    if (kernel_waits) {
      EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_ERR_TIMEOUT);
      EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_ABORTED);
    }
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
                 kernel_waits ? "a kernel waited longer than PARTITA_TIMEOUT" : "the wait took longer than",
                 "algorithm push, epoch 1", "have marked 3 of 3 partitions");
  }
}

/// What this process writes to stderr, for as long as this lives.
class WrittenToStderr {
 public:
  WrittenToStderr() : before_(dup(STDERR_FILENO)), file_(memfd_create("stderr", MFD_CLOEXEC)) {
    dup2(file_, STDERR_FILENO);
  }
  ~WrittenToStderr() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(file_);
  }
  WrittenToStderr(const WrittenToStderr&) = delete;
  WrittenToStderr& operator=(const WrittenToStderr&) = delete;

  std::string text() const {
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(std::max(ssize_t{0}, pread(file_, text.data(), text.size(), 0))));
    return text;
  }

 private:
  int before_;
  int file_;
};

/// Kernels that loop over MPIX_Parrived have no limit, so somebody must say why they hang: here a look is held up.
TEST_F(PushedTimeout, is_told_where_what_reduces_does_not_run) {
  PushedCase collective(4);
  harness_barrier();
  collective.create();
  collective.write(1);
  FakeGpu::instance().hold_all(true);
  std::string text;
  {
    const WrittenToStderr written;
    collective.start_and_mark_in_kernel();
    while ((text = written.text()).empty()) std::this_thread::yield();
  }
  FakeGpu::instance().hold_all(false);
  EXPECT_NE(text.find("on GPU"), std::string::npos) << text;
  EXPECT_NE(text.find("has not run for 2 s"), std::string::npos) << text;
  EXPECT_NE(text.find("CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos) << text;
  for (int p = 0; p < partitions; ++p) {
    for (int flag = 0; flag == 0; std::this_thread::yield()) {
      ASSERT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
    }
  }
  collective.wait_in_kernel();
  collective.expect_all(1);
  collective.free_device_request();
}

}  // namespace
}  // namespace partita::test
