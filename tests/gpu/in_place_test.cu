// Sends in place (info key partita_in_place): kernels compute straight into the receiver's memory, and a mark moves
// nothing. Two ranks, a GPU each.
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

constexpr std::uint64_t own_data = 1000;  ///< what lies in the send buffer, and must never arrive

struct Tally {
  unsigned long long wrong_bytes = 0;
  int failed_call = 0;  ///< the first code that was not 0
  int no_place = 0;     ///< calls of MPIX_Pbuffer that gave null
};

__device__ bool failed(int code, Tally* tally) {
  if (code != 0 && threadIdx.x == 0) atomicCAS(&tally->failed_call, 0, code);
  return code != 0;
}

/// By a block: partition `p` is computed where the receiver has it, and marked.
__device__ bool compute_and_mark(int p, MPIX_Prequest send, std::int64_t bytes, std::uint64_t round, Tally* tally) {
  auto* const place = static_cast<unsigned char*>(MPIX_Pbuffer(p, send));
  if (place == nullptr && bytes > 0) {
    if (threadIdx.x == 0) atomicAdd(&tally->no_place, 1);
  } else {
    for (std::int64_t i = threadIdx.x; i < bytes; i += blockDim.x) place[i] = byte_at(round, p * bytes + i);
  }
  return !failed(MPIX_Pready_block(p, send), tally);
}

/// Block b computes partition b; host-driven.
__global__ void compute(MPIX_Prequest send, std::int64_t bytes, std::uint64_t round, Tally* tally) {
  compute_and_mark(static_cast<int>(blockIdx.x), send, bytes, round, tally);
}

/// One block runs the epochs of a device-driven send.
__global__ void compute_rounds(MPIX_Prequest send, std::int64_t bytes, int partitions, int rounds, Tally* tally) {
  for (int round = 1; round <= rounds; ++round) {
    if (failed(MPIX_Pstart(send), tally) || failed(MPIX_Pbuf_prepare(send), tally)) return;
    for (int p = 0; p < partitions; ++p) {
      if (!compute_and_mark(p, send, bytes, static_cast<std::uint64_t>(round), tally)) return;
    }
    if (failed(MPIX_Pwait(send), tally)) return;
  }
}

/// One block runs the epochs of a device-driven receive.
__global__ void receive_rounds(MPIX_Prequest recv, std::int64_t bytes, int partitions, int rounds, Tally* tally) {
  for (int round = 1; round <= rounds; ++round) {
    if (failed(MPIX_Pstart(recv), tally) || failed(MPIX_Pwait(recv), tally)) return;
    unsigned long long wrong = 0;
    for (int p = 0; p < partitions; ++p) {
      const auto* const place = static_cast<const unsigned char*>(MPIX_Pbuffer(p, recv));
      for (std::int64_t i = threadIdx.x; i < bytes; i += blockDim.x) {
        wrong += place[i] != byte_at(static_cast<std::uint64_t>(round), p * bytes + i);
      }
    }
    if (wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
  }
}

__global__ void mark_unprepared(MPIX_Prequest send, int* codes) {
  codes[0] = MPIX_Pbuffer(0, send) == nullptr ? 1 : 0;
  codes[1] = MPIX_Pready_thread(0, send);
}

class InPlace : public FirstToLast {
 protected:
  void make(const AnyBuffer& buffer, int partitions, const std::string& driver) {
    const std::int64_t bytes = buffer.size_bytes() / partitions;
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", driver.c_str());
    PMPI_Info_set(info, "partita_in_place", sends() ? "true" : "false");
    const int code = sends() ? Partita_Psend_init(buffer.data(), partitions, bytes, MPI_BYTE, receiver(), 12,
                                                  MPI_COMM_WORLD, info, &request_)
                             : Partita_Precv_init(buffer.data(), partitions, bytes, MPI_BYTE, sender(), 12,
                                                  MPI_COMM_WORLD, info, &request_);
    PMPI_Info_free(&info);
    ASSERT_EQ(code, MPI_SUCCESS);
  }
  /// Packets are no place to compute in.
  void make_device_side() {
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    if (sends()) ASSERT_TRUE(goes(request_, kernels_reach(sender(), receiver()), false));
    *tally_ = {};
    harness_barrier();
  }
  void free() {
    if (device_.state != nullptr) ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }
  static std::uint64_t rounds_or(int otherwise) {
    return static_cast<std::uint64_t>(environment_number("PARTITEST_ROUNDS", otherwise));
  }
  void expect_all_well() {
    EXPECT_EQ(tally_->failed_call, 0);
    EXPECT_EQ(tally_->no_place, 0);
    EXPECT_EQ(tally_->wrong_bytes, 0u);
  }

  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
  Managed<Tally> tally_;
  Stream stream_;
};

struct Shape {
  std::int64_t partition_bytes;
  int partitions;
  Placement placement = Placement::gpu;
};
const std::vector<Shape> shapes = {{8, 1}, {64, 4}, {1001, 3}, {65'536, 16}, {65'536, 16, Placement::mapped}};

TEST_F(InPlace, kernels_compute_in_the_receive_buffer_of_host_driven_requests) {
  for (const Shape& shape : shapes) {
    const std::string text = std::to_string(shape.partitions) + " × " + std::to_string(shape.partition_bytes);
    SCOPED_TRACE(text);
    step(text);
    AnyBuffer buffer(shape.partition_bytes * shape.partitions, shape.placement);
    if (sends()) buffer.fill(own_data);
    make(buffer, shape.partitions, "host");
    ASSERT_FALSE(HasFatalFailure());
    make_device_side();
    ASSERT_FALSE(HasFatalFailure());
    for (std::uint64_t round = 1; round <= rounds_or(50); ++round) {
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      if (sends()) {
        ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
        compute<<<shape.partitions, 96, 0, stream_>>>(device_, shape.partition_bytes, round, tally_.get());
        CUDA_OK(cudaGetLastError());
      }
      ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_TRUE(buffer.holds(sends() ? own_data : round, 0, buffer.size_bytes()));
    }
    CUDA_OK(cudaStreamSynchronize(stream_));
    expect_all_well();
    free();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(InPlace, kernels_compute_in_the_receive_buffer_of_device_driven_requests) {
  for (const Shape& shape : shapes) {
    const std::string text = std::to_string(shape.partitions) + " × " + std::to_string(shape.partition_bytes);
    SCOPED_TRACE(text);
    step(text);
    const int rounds = static_cast<int>(rounds_or(300));
    AnyBuffer buffer(shape.partition_bytes * shape.partitions, shape.placement);
    if (sends()) buffer.fill(own_data);
    make(buffer, shape.partitions, "device");
    ASSERT_FALSE(HasFatalFailure());
    make_device_side();
    ASSERT_FALSE(HasFatalFailure());
    if (sends()) {
      compute_rounds<<<1, 96, 0, stream_>>>(device_, shape.partition_bytes, shape.partitions, rounds, tally_.get());
    } else {
      receive_rounds<<<1, 96, 0, stream_>>>(device_, shape.partition_bytes, shape.partitions, rounds, tally_.get());
    }
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(stream_));
    expect_all_well();
    EXPECT_TRUE(buffer.holds(sends() ? own_data : static_cast<std::uint64_t>(rounds), 0, buffer.size_bytes()));
    free();
    ASSERT_FALSE(HasFailure());
  }
}

/// There is no place before the receiver has one: the mark is refused, and the next Wait says why.
TEST_F(InPlace, a_mark_before_the_receiver_is_ready_is_refused) {
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  GpuBuffer buffer(256);
  make(buffer, 4, "host");
  ASSERT_FALSE(HasFatalFailure());
  make_device_side();
  ASSERT_FALSE(HasFatalFailure());
  if (sends()) {
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    int* codes = nullptr;
    CUDA_OK(cudaMallocManaged(&codes, 2 * sizeof(int)));
    mark_unprepared<<<1, 1, 0, stream_>>>(device_, codes);
    CUDA_OK(cudaStreamSynchronize(stream_));
    EXPECT_EQ(codes[0], 1) << "MPIX_Pbuffer gave a place";
    EXPECT_EQ(codes[1], PARTITA_DEVICE_ERR_UNPREPARED);
    CUDA_OK(cudaFree(codes));
    EXPECT_NE(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  harness_barrier();
  free();
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Where kernels cannot store into the receive buffer the device request is refused.
TEST_F(InPlace, needs_a_receive_buffer_that_kernels_reach) {
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  AnyBuffer buffer(256, sends() ? Placement::gpu : Placement::host);
  make(buffer, 4, "host");
  ASSERT_FALSE(HasFatalFailure());
  if (sends()) {
    Partita_Prequest device{};
    const int code = Partita_Prequest_create(&device, request_);
    ASSERT_NE(code, MPI_SUCCESS);
    EXPECT_NE(told_by(code).find("partita_in_place"), std::string::npos) << told_by(code);
  }
  harness_barrier();
  free();
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace partita::test
