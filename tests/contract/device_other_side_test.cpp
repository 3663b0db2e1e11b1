// When one side of a request fails or is freed, the kernels of the other are released and its host hears why. Threads
// stand for kernels; no time limit is set.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <functional>
#include <string>
#include <thread>

#include "contract/fake_gpu_request.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

/// Longer than several looks of the watch over kernels, which acts on the second.
constexpr auto several_looks = std::chrono::milliseconds(700);

class DeviceOtherSide : public FakeGpuRequest {
 protected:
  void make_both(const char* key = nullptr, const char* value = nullptr) {
    make(mapped, key, value);
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    harness_barrier();  // neither side fails or frees while the other is still making its own
  }
  /// What goes wrong afterwards meets an epoch that is open on both sides.
  void open_both() {
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    harness_barrier();
  }
  void TearDown() override {
    FakeGpu::instance().mend(mapped);
    if (device_.state != nullptr) {
      EXPECT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    }
    FakeGpuRequest::TearDown();
  }

  void free_both() {
    EXPECT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
  }

  static void expect_error(int code, const std::string& words) {
    ASSERT_NE(code, MPI_SUCCESS) << "expected is: " << words;
    const std::string sentence = told_by(code);
    EXPECT_NE(sentence.find(words), std::string::npos) << sentence << "\nexpected is: " << words;
  }
  /// What the call of a kernel returns that waits while the hosts do `meanwhile`.
  static int of_kernel(const std::function<int()>& call, const std::function<void()>& meanwhile) {
    int code = -1;
    std::thread kernel([&] { code = call(); });
    meanwhile();
    kernel.join();
    return code;
  }

  MPIX_Prequest device_{};

 private:
  ReturnedErrors returned_errors_;
};

TEST_F(DeviceOtherSide, a_second_mark_of_a_kernel_ends_the_receive) {
  make_both();
  open_both();
  if (sends()) {
    EXPECT_EQ(MPIX_Pready(1, device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(1, device_), PARTITA_DEVICE_ERR_TWICE);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "a kernel marked a partition twice");
  } else {
    const int code = of_kernel([&] { return MPIX_Pwait(device_); },
                               [&] {
                                 expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE),
                                              "the sender, rank 0, gave its request up: a kernel marked");
                               });
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_ABORTED);
  }
}

TEST_F(DeviceOtherSide, a_fault_of_the_senders_gpu_ends_the_receive) {
  make_both();
  open_both();
  if (sends()) {
    FakeGpu::instance().fail(mapped);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "has made an illegal access");
  } else {
    const int code =
        of_kernel([&] { return MPIX_Pwait(device_); },
                  [&] {
                    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE),
                                 "the sender, rank 0, failed: a kernel of GPU 4 has made an illegal access");
                  });
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_ABORTED);
  }
}

TEST_F(DeviceOtherSide, a_fault_of_the_receivers_gpu_ends_the_send) {
  make_both();
  open_both();
  if (!sends()) {
    FakeGpu::instance().fail(mapped);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "has made an illegal access");
  } else {
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE),
                 "the receiver, rank 1, failed: a kernel of GPU 4 has made an illegal access");
  }
}

/// Both hosts sit in a barrier of the MPI.
TEST_F(DeviceOtherSide, a_fault_releases_the_kernels_of_a_device_driven_peer) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  make_both("partita_driver", "device");
  EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
  harness_barrier();  // both have opened the epoch
  const auto sit = [] { harness_barrier(); };
  if (sends()) {
    EXPECT_EQ(of_kernel([&] { return MPIX_Pbuf_prepare(device_); }, [] {}), PARTITA_DEVICE_SUCCESS);
    FakeGpu::instance().fail(mapped);
    sit();
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "has made an illegal access");
  } else {
    EXPECT_EQ(of_kernel([&] { return MPIX_Pwait(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
    sit();
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the sender, rank 0, failed");
  }
}

TEST_F(DeviceOtherSide, a_free_of_the_send_releases_kernels_that_wait_for_it) {
  make_both();
  if (!sends()) {
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
  }
  harness_barrier();  // what has not begun would be refused
  if (sends()) {
    free_both();
  } else {
    EXPECT_EQ(of_kernel([&] { return MPIX_Pwait(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the sender has freed its request (rank 0)");
  }
}

/// The host does not see which epoch is open: kernels at a complete one hear nothing of a free, those at the next do.
TEST_F(DeviceOtherSide, a_free_of_the_send_releases_device_driven_kernels_from_the_next_epoch_on) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  make_both("partita_driver", "device");
  EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
  if (sends()) {
    EXPECT_EQ(MPIX_Pbuf_prepare(device_), PARTITA_DEVICE_SUCCESS);
    write_pattern(buffer_->data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pwait(device_), PARTITA_DEVICE_SUCCESS);
    free_both();
    harness_barrier();
  } else {
    harness_barrier();
    std::this_thread::sleep_for(several_looks);
    EXPECT_EQ(MPIX_Pwait(device_), PARTITA_DEVICE_SUCCESS);
    expect_contents(1);
    EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(of_kernel([&] { return MPIX_Pwait(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the sender has freed its request (rank 0)");
  }
}

TEST_F(DeviceOtherSide, a_free_of_the_receive_releases_device_driven_kernels_that_wait_for_it) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  make_both("partita_driver", "device");
  if (sends()) {
    EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
  }
  harness_barrier();  // the epoch is open
  if (!sends()) return free_both();
  EXPECT_EQ(of_kernel([&] { return MPIX_Pbuf_prepare(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
  expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the receiver has freed its request (rank 1)");
}

TEST_F(DeviceOtherSide, a_send_that_is_freed_within_an_epoch_of_its_kernels_loses_that_epoch) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  make_both("partita_driver", "device");
  EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
  if (sends()) {
    EXPECT_EQ(MPIX_Pbuf_prepare(device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(0, device_), PARTITA_DEVICE_SUCCESS);
    return free_both();
  }
  EXPECT_EQ(of_kernel([&] { return MPIX_Pwait(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
  expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the sender, rank 0, gave its request up");
}

TEST_F(DeviceOtherSide, a_receive_that_is_freed_within_an_epoch_of_its_kernels_loses_that_epoch) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  make_both("partita_driver", "device");
  EXPECT_EQ(MPIX_Pstart(device_), PARTITA_DEVICE_SUCCESS);
  if (!sends()) return free_both();
  EXPECT_EQ(of_kernel([&] { return MPIX_Pwait(device_); }, [] {}), PARTITA_DEVICE_ERR_ABORTED);
  expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "the receiver, rank 1, gave its request up");
}

/// What has arrived stays: the sender is gone when the receiver looks.
TEST_F(DeviceOtherSide, a_receive_that_has_all_completes_for_host_and_kernels) {
  make_both();
  ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
  if (sends()) {
    ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
    write_pattern(buffer_->data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(partitions, device_), PARTITA_DEVICE_ERR_PARTITION);
    expect_error(Partita_Wait(&request_, MPI_STATUS_IGNORE), "a kernel named a partition that");
    harness_barrier();
  } else {
    harness_barrier();
    std::this_thread::sleep_for(several_looks);
    EXPECT_EQ(MPIX_Pwait(device_), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    expect_contents(1);
    expect_error(Partita_Start(&request_), "the sender, rank 0, gave its request up");
  }
}

}  // namespace
}  // namespace partita::test
