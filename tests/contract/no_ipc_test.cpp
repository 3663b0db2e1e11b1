// GPU memory that other processes cannot map: a driver without IPC, GPUs without a path. The whole library runs on a
// GPU memory of the tests' own making; threads stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "contract/fake_gpu_request.hpp"
#include "support/sanitized.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

class NoIpc : public FakeGpuRequest {
 protected:
  /// Epochs that hosts mark, and what the request says of its way, with the driver's words.
  void expect_staged_since(const std::string& words) {
    for (std::uint64_t round = 1; round <= 4; ++round) {
      step("round " + std::to_string(round));
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      for (int p = partitions - 1; sends() && p >= 0; --p) {
        write_partition(round, p);
        ASSERT_EQ(Partita_Pready(p, request_), MPI_SUCCESS);
      }
      ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      if (!sends()) expect_contents(round);
    }
    const std::string reason = told(request_, "partita_reason");
    EXPECT_NE(reason.find("staged in host memory"), std::string::npos) << reason;
    EXPECT_NE(reason.find(words), std::string::npos) << reason;
  }
};

TEST_F(NoIpc, gpu_memory_of_a_driver_without_it_is_staged_in_host_memory) {
  make(nothing);
  expect_staged_since("cuIpcGetMemHandle fails: operation not supported");
}

TEST_F(NoIpc, so_is_that_of_a_driver_that_shares_only_what_was_mapped_by_hand) {
  make(buffers_only);
  expect_staged_since("cuIpcGetMemHandle fails: operation not supported");
}

TEST_F(NoIpc, so_is_memory_of_a_pool) {
  make(blocks_only);
  expect_staged_since("the receive buffer cannot be mapped by other processes: cuIpcGetMemHandle fails");
}

TEST_F(NoIpc, so_is_memory_of_gpus_without_a_path_between_them) {
  make(unreached_peer);
  expect_staged_since("the two GPUs do not reach each other's memory: cuIpcOpenMemHandle fails");
}

TEST_F(NoIpc, marks_return_and_nothing_arrives_while_the_copy_into_host_memory_is_held) {
  make(nothing);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    step("round " + std::to_string(round));
    if (sends()) FakeGpu::instance().hold(buffer_->data());
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    int flag = 0;
    if (sends()) {
      write_pattern(buffer_->data(), round, 0, total_bytes);
      ASSERT_EQ(Partita_Pready_range(0, partitions - 1, request_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Test(&request_, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
    } else {
      ASSERT_EQ(Partita_Parrived(request_, 0, &flag), MPI_SUCCESS);
    }
    EXPECT_EQ(flag, 0);
    harness_barrier();
    FakeGpu::instance().hold(nullptr);
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (!sends()) expect_contents(round);
  }
}

/// A kernel hands every partition to its host, which stages them; another one sees them arrive.
TEST_F(NoIpc, kernels_mark_through_the_progress_engine) {
  make(nothing);
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
  if (sends()) {
    EXPECT_EQ(told(request_, "partita_gpu_copy"), "engine");
  }
  for (std::uint64_t round = 1; round <= 20; ++round) {
    step("round " + std::to_string(round));
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    std::atomic<int> failed{0};
    std::thread kernel([&] {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      for (int p = 0; p < partitions; ++p) {
        if (sends()) {
          write_partition(round, p);
          failed += MPIX_Pready(p, device) != PARTITA_DEVICE_SUCCESS;
          continue;
        }
        int arrived = 0;
        while (arrived == 0 && std::chrono::steady_clock::now() < limit) {
          if (MPIX_Parrived(device, p, &arrived) != PARTITA_DEVICE_SUCCESS) break;
          std::this_thread::yield();
        }
        failed += arrived == 0;
      }
    });
    const int code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    kernel.join();
    ASSERT_EQ(code, MPI_SUCCESS);
    EXPECT_EQ(failed, 0) << "calls in kernels";
    if (!sends()) expect_contents(round);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
}

/// The host's threads start thousands of transfers that a kernel hands over, and one of them sees these off.
TEST(NoIpcMany, transfers_of_a_kernel_are_started_and_completed_by_several_threads_at_once) {
  constexpr int partitions = 4096;
  constexpr std::int64_t partition_bytes = 2048;
  constexpr std::int64_t total_bytes = partitions * partition_bytes;
  const bool sends = rank() == 0;
  const FakeGpuBuffer buffer(nothing, total_bytes);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_transport_partitions", std::to_string(partitions).c_str());
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(sends ? Partita_Psend_init(buffer.data(), partitions, partition_bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, info,
                                       &request)
                  : Partita_Precv_init(buffer.data(), partitions, partition_bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, info,
                                       &request),
            MPI_SUCCESS);
  PMPI_Info_free(&info);
  MPIX_Prequest device{};
  if (sends) {
    ASSERT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS);
  }
  for (std::uint64_t round = 1; round <= repetitions(20U, 6U); ++round) {
    step("round " + std::to_string(round));
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    std::atomic<int> failed{0};
    std::thread kernel([&] {
      for (int p = 0; sends && p < partitions; ++p) {
        write_pattern(buffer.data() + p * partition_bytes, round, p * partition_bytes, (p + 1) * partition_bytes);
        failed += MPIX_Pready(p, device) != PARTITA_DEVICE_SUCCESS;
      }
    });
    const int code = Partita_Wait(&request, MPI_STATUS_IGNORE);
    kernel.join();
    ASSERT_EQ(code, MPI_SUCCESS);
    EXPECT_EQ(failed, 0) << "calls in kernels";
    if (!sends) {
      EXPECT_EQ(first_off_pattern(buffer.data(), round, 0, total_bytes), total_bytes) << "round " << round;
    }
    ASSERT_FALSE(HasFailure());
  }
  if (sends) {
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
  }
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  harness_barrier();
}

/// What the host has seen arrive, a kernel that it launches then sees too, however late the copy engine writes flags.
TEST_F(NoIpc, everything_has_arrived_for_kernels_once_the_hosts_wait_returns) {
  make(nothing);
  MPIX_Prequest device{};
  if (!sends()) {
    ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
  }
  for (std::uint64_t round = 1; round <= 20 && !HasFailure(); ++round) {
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    if (sends()) {
      write_pattern(buffer_->data(), round, 0, total_bytes);
      EXPECT_EQ(Partita_Pready_range(0, partitions - 1, request_), MPI_SUCCESS);
    }
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    for (int p = 0; !sends() && p < partitions; ++p) {
      int flag = 0;
      EXPECT_EQ(MPIX_Parrived(device, p, &flag), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(flag, 1) << "partition " << p << " of round " << round;
    }
  }
  if (!sends()) {
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
  }
}

/// What the host raises for kernels is raised for nobody, once there is no device request.
TEST_F(NoIpc, a_staged_receive_goes_on_without_its_device_request) {
  make(nothing);
  std::uint64_t round = 0;
  const auto epoch = [&](const auto& while_open) {
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    ++round;
    if (sends()) {
      write_pattern(buffer_->data(), round, 0, total_bytes);
      EXPECT_EQ(Partita_Pready_range(0, partitions - 1, request_), MPI_SUCCESS);
    } else {
      while_open();
    }
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (!sends()) {
      EXPECT_EQ(first_off_pattern(buffer_->data(), round, 0, total_bytes), total_bytes);
    }
  };
  epoch([] {});
  for (int life = 0; life < 2; ++life) {
    MPIX_Prequest device{};
    if (!sends()) {
      ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
      int flag = 0;
      EXPECT_EQ(MPIX_Parrived(device, 0, &flag), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(flag, 1) << "no epoch is open";
    }
    epoch([&] { EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS); });
    if (!sends()) {
      EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    }
    epoch([] {});
  }
}

class NoIpcErrors : public NoIpc {
 protected:
  void expect_refusal() {
    MPIX_Prequest device{};
    const int code = Partita_Prequest_create(&device, request_);
    ASSERT_NE(code, MPI_SUCCESS);
    // Open MPI's strings end in the middle of the sentence.
    const std::string sentence = told_by(code);
    const bool cut_short = sentence.size() + 1 >= MPI_MAX_ERROR_STRING;
    EXPECT_TRUE(cut_short || sentence.find("cuIpcGetMemHandle fails") != std::string::npos) << sentence;
    EXPECT_NE(sentence.find("link direct"), std::string::npos) << sentence;
  }

 private:
  ReturnedErrors returned_errors_;
};

TEST_F(NoIpcErrors, device_driven_requests_need_it_and_say_so) {
  make(nothing, "partita_driver", "device");
  expect_refusal();
}

TEST_F(NoIpcErrors, so_do_sends_whose_kernels_must_copy) {
  make(nothing, "partita_gpu_copy", "kernel");
  if (sends()) return expect_refusal();
  MPIX_Prequest device{};
  EXPECT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
