// What kernels and hosts do wrong with host-driven device requests, and the sentences of the next host call.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

__global__ void mark_all(MPIX_Prequest prequest, int partitions) {
  const int partition = static_cast<int>(threadIdx.x);
  if (partition < partitions) MPIX_Pready(partition, prequest);
}

__global__ void mark_one(MPIX_Prequest prequest, int partition, int* code) {
  *code = MPIX_Pready_thread(partition, prequest);
}

class PrequestErrors : public FirstToLast {
 protected:
  static constexpr int partitions = 4;
  static constexpr std::int64_t bytes = 64;

  void SetUp() override {
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (sends()) {
      ASSERT_EQ(Partita_Psend_init(send_buffer_.data(), partitions, bytes, MPI_BYTE, receiver(), 5, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &send_),
                MPI_SUCCESS);
    }
    if (receives()) {
      ASSERT_EQ(Partita_Precv_init(recv_buffer_.data(), partitions, bytes, MPI_BYTE, sender(), 5, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &recv_),
                MPI_SUCCESS);
    }
    if (sends()) ASSERT_EQ(Partita_Prequest_create(&device_, send_), MPI_SUCCESS);
  }

  void TearDown() override {
    harness_barrier();
    if (sends()) EXPECT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
    if (receives()) EXPECT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    harness_barrier();
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  }

  /// Marks in a kernel; the next Test says what is wrong, in these words.
  void expect_error(const std::vector<int>& marks, const std::string& words) {
    if (sends()) {
      Managed<int> code;
      for (const int partition : marks) mark_one<<<1, 1>>>(device_, partition, code.get());
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_NE(*code, 0);
      int flag = 0;
      const int result = Partita_Test(&send_, &flag, MPI_STATUS_IGNORE);
      ASSERT_NE(result, MPI_SUCCESS);
      EXPECT_NE(told_by(result).find(words), std::string::npos) << told_by(result);
    }
  }

  GpuBuffer send_buffer_{partitions * bytes};
  GpuBuffer recv_buffer_{partitions * bytes};
  Partita_Request send_ = PARTITA_REQUEST_NULL;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
};

TEST_F(PrequestErrors, a_partition_that_is_not_there) {
  if (sends()) ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
  expect_error({partitions}, "does not have (partition 4)");
}

TEST_F(PrequestErrors, a_partition_marked_twice) {
  if (sends()) ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
  expect_error({1, 1}, "twice");
}

TEST_F(PrequestErrors, a_mark_before_the_host_starts) {
  if (sends()) {
    Managed<int> code;
    mark_one<<<1, 1>>>(device_, 0, code.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    // Where kernels hand all to the progress engine it is too late to refuse the mark.
    EXPECT_EQ(*code, device_.remote == nullptr ? PARTITA_DEVICE_SUCCESS : PARTITA_DEVICE_ERR_INACTIVE);
    EXPECT_NE(Partita_Start(&send_), MPI_SUCCESS);
  }
}

TEST_F(PrequestErrors, a_mark_after_the_device_request_was_freed) {
  if (sends()) {
    const Partita_Prequest stale = device_;
    ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    Managed<int> code;
    mark_one<<<1, 1>>>(stale, 0, code.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(*code, PARTITA_DEVICE_ERR_FREED);
  }
}

TEST_F(PrequestErrors, the_host_marks_beside_kernels) {
  if (receives()) ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
  if (sends()) {
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    EXPECT_NE(Partita_Pready(0, send_), MPI_SUCCESS);
    mark_all<<<1, 32>>>(device_, partitions);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  if (receives()) EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
}

/// Kernels never store into host memory: that is left to the engine, unless the program demands a kernel copy.
TEST_F(PrequestErrors, kernels_are_to_copy_into_host_memory) {
  std::vector<unsigned char> in_host_memory(partitions * bytes);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_gpu_copy", "kernel");
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request recv = PARTITA_REQUEST_NULL;
  if (sends()) {
    ASSERT_EQ(Partita_Psend_init(send_buffer_.data(), partitions, bytes, MPI_BYTE, receiver(), 10, MPI_COMM_WORLD, info,
                                 &send),
              MPI_SUCCESS);
  }
  if (receives()) {
    ASSERT_EQ(Partita_Precv_init(in_host_memory.data(), partitions, bytes, MPI_BYTE, sender(), 10, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &recv),
              MPI_SUCCESS);
  }
  PMPI_Info_free(&info);
  if (sends()) {
    Partita_Prequest prequest{};
    const int code = Partita_Prequest_create(&prequest, send);
    ASSERT_NE(code, MPI_SUCCESS);
    const std::string text = told_by(code);
    EXPECT_NE(text.find("partita_gpu_copy is kernel"), std::string::npos) << text;
    EXPECT_NE(text.find("kernels cannot reach the receive buffer"), std::string::npos) << text;
  }
  harness_barrier();
  if (sends()) EXPECT_EQ(Partita_Request_free(&send), MPI_SUCCESS);
  if (receives()) EXPECT_EQ(Partita_Request_free(&recv), MPI_SUCCESS);
}

TEST_F(PrequestErrors, host_memory_has_no_device_request) {
  if (!sends()) return;
  int in_host_memory = 0;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(Partita_Psend_init(&in_host_memory, 1, 1, MPI_INT, rank(), 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  Partita_Request other = PARTITA_REQUEST_NULL;
  int arrives = 0;
  ASSERT_EQ(Partita_Precv_init(&arrives, 1, 1, MPI_INT, rank(), 9, MPI_COMM_WORLD, MPI_INFO_NULL, &other), MPI_SUCCESS);
  Partita_Prequest prequest{};
  EXPECT_NE(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&other), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
