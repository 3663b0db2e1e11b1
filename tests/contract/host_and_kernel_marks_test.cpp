// A partition of a collective that the host and a kernel mark in one epoch, with threads for kernels: it fails the
// collective, and whoever looks hears why. What the kernel has marked beside it is not lost silently.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <future>
#include <thread>

#include "capi/state.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int both_partitions = 5, marked_by_both = 1;

/// While it lives, nobody takes steps of the progress engine.
class WithoutSteps {
 public:
  WithoutSteps() { held_.get_future().wait(); }
  ~WithoutSteps() {
    ended_.set_value();
    holder_.join();
  }
  WithoutSteps(const WithoutSteps&) = delete;
  WithoutSteps& operator=(const WithoutSteps&) = delete;

 private:
  std::promise<void> held_, ended_;
  std::thread holder_{[this] {  // another thread's: who holds the lock takes steps
    const auto exclusive = capi::runtime().progress.exclusive();
    held_.set_value();
    ended_.get_future().wait();
  }};
};

/// An allreduce, whose epoch all ranks have started. Rank 0 has a device request, while whose making its host has
/// marked a partition, as one thread may while another one makes it.
class HostAndKernelMarks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Partita_Pallreduce_init(sent_.data(), received_.data(), both_partitions, 1, MPI_INT, MPI_SUM,
                                      MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);  // nothing of the match is to come
    harness_barrier();                                       // on any rank, so that none hears of the failure in it
    if (rank() != 0) return;
    bool has_marked = false;
    FakeGpu::before_next_block([&] {
      has_marked = true;
      EXPECT_EQ(Partita_Pready(marked_by_both, request_), MPI_SUCCESS);
    });
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    ASSERT_TRUE(has_marked) << "no block of the device request was allocated";
  }
  void TearDown() override {
    FakeGpu::before_next_block(nullptr);
    if (device_.life != 0) {
      EXPECT_EQ(MPIX_Pwait_partition(0, device_), PARTITA_DEVICE_ERR_ABORTED) << "its kernels are not released";
      EXPECT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    }
    harness_barrier();  // what goes wrong with a peer's free is not tested here
    EXPECT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }
  void mark_by_kernel() const { EXPECT_EQ(MPIX_Pready_range(0, both_partitions - 1, device_), PARTITA_DEVICE_SUCCESS); }
  void expect_failure_of_wait() {
    EXPECT_ERROR(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "partition 1",
                 "by the host and by a kernel", "allreduce");
  }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
  const FakeGpuBuffer sent_{mapped, sizeof(int) * both_partitions};
  const FakeGpuBuffer received_{mapped, sizeof(int) * both_partitions};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest device_{};
};

TEST_F(HostAndKernelMarks, of_one_partition_fail_the_collective_on_all_ranks) {
  if (rank() == 0) mark_by_kernel();
  expect_failure_of_wait();
}

/// Calls that look, and leave the request as it is, say so as often as they are made.
TEST_F(HostAndKernelMarks, are_told_by_whoever_looks_first_and_by_all_behind) {
  if (rank() == 0) {
    const WithoutSteps no_other_looks;
    mark_by_kernel();
    for (int look = 0; look < 2; ++look) {
      int flag = -1;
      EXPECT_ERROR(Partita_Request_get_status(request_, &flag, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "partition 1",
                   "by the host and by a kernel");
    }
  }
  expect_failure_of_wait();
}

}  // namespace
}  // namespace partita::test
