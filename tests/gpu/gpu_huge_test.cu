// Requests of more than 2^32 bytes between GPU memories: what a sum or a product of 32 bits would lose. Every byte is
// looked at by a kernel. One way, the first rank to the last.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr int guard_bytes = 4096;            ///< on both sides of what is received
constexpr unsigned char untouched = 0xa5;    ///< what lies there
constexpr unsigned whole_gpu_blocks = 1024;  ///< of 256 threads

struct Shape {
  std::int64_t partition_bytes;
  int send_partitions;
  int recv_partitions;
  int transport_partitions;
  int shift = 0;  ///< how many bytes behind a boundary of 16 the send buffer begins

  std::int64_t total_bytes() const { return partition_bytes * send_partitions; }
  std::string text() const {
    return std::to_string(send_partitions) + " partitions of " + std::to_string(partition_bytes) + " bytes in " +
           std::to_string(transport_partitions) + " transfers to " + std::to_string(recv_partitions) +
           " partitions, shifted by " + std::to_string(shift);
  }
};
// Partitions of more than 2^31 bytes; a transfer of more than 2^32; and many partitions, the last of which lie beyond
// 2^32.
constexpr std::int64_t long_partition_bytes = 2 * gib + 64 * mib + 48;
const std::vector<Shape> shapes = {{long_partition_bytes, 2, 2, 2},
                                   {long_partition_bytes, 2, 1, 1},
                                   {long_partition_bytes, 2, 1, 2, 1},
                                   {mib + 80, 4099, 1, 4099},
                                   {mib + 80, 4099, 4099, 7}};

struct Found {
  unsigned long long wrong_bytes = 0;
  unsigned long long first_wrong = ~0ULL;
  int failed_calls = 0;
  int code = 0;  ///< of one of them
};

__device__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}
__device__ void note(int code, Found* found) {
  if (code == PARTITA_DEVICE_SUCCESS) return;
  found->code = code;
  atomicAdd(&found->failed_calls, 1);
}

__global__ void fill(unsigned char* buffer, std::int64_t bytes, std::uint64_t round) {
  for (std::int64_t i = first_of_thread(); i < bytes; i += threads_of_grid()) buffer[i] = byte_at(round, i);
}

__global__ void compare(const unsigned char* buffer, std::int64_t bytes, std::uint64_t round, Found* found) {
  unsigned long long wrong = 0;
  unsigned long long first = ~0ULL;
  for (std::int64_t i = first_of_thread(); i < bytes; i += threads_of_grid()) {
    if (buffer[i] == byte_at(round, i)) continue;
    ++wrong;
    if (first == ~0ULL) first = static_cast<unsigned long long>(i);
  }
  if (wrong == 0) return;
  atomicAdd(&found->wrong_bytes, wrong);
  atomicMin(&found->first_wrong, first);
}

/// Each block marks its partitions.
__global__ void __launch_bounds__(1024) mark_by_blocks(MPIX_Prequest send, Found* found) {
  for (int p = static_cast<int>(blockIdx.x); p < send.send_partitions; p += static_cast<int>(gridDim.x)) {
    const int code = MPIX_Pready_block(p, send);
    if (threadIdx.x == 0) note(code, found);
  }
}

/// Each thread marks one partition, or none; a warp copies its neighbouring partitions as one piece.
__global__ void __launch_bounds__(256) mark_by_threads(MPIX_Prequest send, Found* found) {
  const std::int64_t p = first_of_thread();
  if (p < send.send_partitions) note(MPIX_Pready(static_cast<int>(p), send), found);
}

/// The receiver's kernel waits, and looks at the end of each of its partitions as soon as that is there.
__global__ void __launch_bounds__(256) await_partitions(MPIX_Prequest recv, std::uint64_t round, Found* found) {
  const std::int64_t bytes = recv.total_bytes / recv.recv_partitions;
  for (int p = static_cast<int>(blockIdx.x); p < recv.recv_partitions; p += static_cast<int>(gridDim.x)) {
    const int code = MPIX_Pwait_partition(p, recv);
    if (threadIdx.x == 0) note(code, found);
    if (code != 0) return;
    const std::int64_t at = (p + 1) * bytes - 1 - threadIdx.x;
    if (recv.buffer[at] == byte_at(round, at)) continue;
    atomicAdd(&found->wrong_bytes, 1ULL);
    atomicMin(&found->first_wrong, static_cast<unsigned long long>(at));
  }
}

enum class MarkedBy { blocks, threads, host };
const char* name_of(MarkedBy by) {
  static constexpr const char* names[] = {"blocks", "threads", "the host"};
  return names[static_cast<int>(by)];
}

class Huge : public FirstToLast {
 protected:
  /// Where there is too little memory: how much there is, on the GPU of all ranks that has least. Collective.
  std::string lack(std::int64_t bytes) {
    std::size_t available = 0;
    std::size_t all = 0;
    must(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
    long long least = static_cast<long long>(available);
    PMPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_LONG_LONG, MPI_MIN, harness_comm());
    const std::int64_t needed = (gpus_are_shared() ? 2 : 1) * bytes + gib;
    if (least >= needed) return "";
    return "needs " + std::to_string(needed / gib + 1) + " GiB of free GPU memory, there are " +
           std::to_string(least / gib);
  }

  void make(const Shape& shape) {
    memory_ = std::make_unique<CudaBuffer>(static_cast<std::size_t>(shape.total_bytes() + 2 * guard_bytes));
    buffer_ = reinterpret_cast<unsigned char*>(memory_->data()) + guard_bytes + (sends() ? shape.shift : 0);
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_transport_partitions", std::to_string(shape.transport_partitions).c_str());
    const int code =
        sends() ? Partita_Psend_init(buffer_, shape.send_partitions, shape.partition_bytes, MPI_BYTE, receiver(), 14,
                                     MPI_COMM_WORLD, info, &request_)
                : Partita_Precv_init(buffer_, shape.recv_partitions, shape.total_bytes() / shape.recv_partitions,
                                     MPI_BYTE, sender(), 14, MPI_COMM_WORLD, info, &request_);
    PMPI_Info_free(&info);
    ASSERT_EQ(code, MPI_SUCCESS);
  }
  void make_device_side(const Shape& shape) {
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    if (!sends()) return;
    ASSERT_TRUE(goes(request_, kernels_reach(sender(), receiver()), false));
    ASSERT_EQ(told(request_, "partita_transport_partitions"), std::to_string(shape.transport_partitions));
  }
  void free() {
    if (device_.state != nullptr) ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    device_ = {};
    ASSERT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();  // requests before buffers, on both sides
    memory_.reset();
    harness_barrier();  // two ranks may share the GPU's memory
  }

  /// The receiver is ready before the sender marks: kernels that copy leave nothing to the engine.
  void run_epoch(const Shape& shape, std::uint64_t round, MarkedBy by) {
    const std::string text = shape.text() + ", round " + std::to_string(round) + ", marked by " + name_of(by);
    SCOPED_TRACE(text);
    step(text);
    const std::int64_t bytes = shape.total_bytes();
    *found_ = {};
    if (sends()) {
      fill<<<whole_gpu_blocks, 256, 0, stream_>>>(buffer_, bytes, round);
    } else {
      const auto all = static_cast<std::size_t>(bytes + 2 * guard_bytes);
      CUDA_OK(cudaMemsetAsync(buffer_ - guard_bytes, untouched, all, stream_));
    }
    CUDA_OK(cudaStreamSynchronize(stream_));
    if (receives()) ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    harness_barrier();
    if (sends()) {
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
      mark(shape, by);
    } else if (by != MarkedBy::host) {
      await_partitions<<<16, 256, 0, stream_>>>(device_, round, found_.get());
    }
    CUDA_OK(cudaGetLastError());
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (receives()) {
      compare<<<whole_gpu_blocks, 256, 0, stream_>>>(buffer_, bytes, round, found_.get());
      CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaStreamSynchronize(stream_));
    EXPECT_EQ(found_->failed_calls, 0) << "code " << found_->code;
    EXPECT_EQ(found_->wrong_bytes, 0u) << "the first one is byte " << found_->first_wrong;
    if (receives()) expect_guards_untouched(bytes);
  }

  void mark(const Shape& shape, MarkedBy by) {
    switch (by) {
      case MarkedBy::blocks:
        mark_by_blocks<<<128, 1024, 0, stream_>>>(device_, found_.get());
        break;
      case MarkedBy::threads:
        mark_by_threads<<<static_cast<unsigned>(shape.send_partitions / 256 + 1), 256, 0, stream_>>>(device_,
                                                                                                     found_.get());
        break;
      case MarkedBy::host:
        ASSERT_EQ(Partita_Pready_range(0, shape.send_partitions - 1, request_), MPI_SUCCESS);
        break;
    }
  }

  void expect_guards_untouched(std::int64_t bytes) {
    const std::vector<unsigned char> expected(guard_bytes, untouched);
    std::vector<unsigned char> seen(guard_bytes);
    for (const unsigned char* guard : {buffer_ - guard_bytes, buffer_ + bytes}) {
      CUDA_OK(cudaMemcpy(seen.data(), guard, guard_bytes, cudaMemcpyDeviceToHost));
      EXPECT_TRUE(seen == expected) << "bytes " << (guard < buffer_ ? "in front of" : "behind") << " the buffer";
    }
  }

  std::unique_ptr<CudaBuffer> memory_;
  unsigned char* buffer_ = nullptr;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
  Managed<Found> found_;
  Stream stream_;
};

TEST_F(Huge, more_than_two_to_32_bytes_arrive_that_kernels_mark) {
  for (const Shape& shape : shapes) {
    if (const std::string reason = lack(shape.total_bytes()); !reason.empty()) GTEST_SKIP() << reason;
    step("making " + shape.text());
    make(shape);
    ASSERT_FALSE(HasFatalFailure());
    make_device_side(shape);
    ASSERT_FALSE(HasFatalFailure());
    run_epoch(shape, 1, MarkedBy::blocks);
    ASSERT_FALSE(HasFailure());
    // A warp that copies gigabytes takes seconds: where it has its neighbours' partitions only.
    run_epoch(shape, 2, shape.send_partitions > 32 ? MarkedBy::threads : MarkedBy::blocks);
    ASSERT_FALSE(HasFailure());
    free();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(Huge, more_than_two_to_32_bytes_arrive_that_hosts_mark) {
  for (const Shape& shape : shapes) {
    if (const std::string reason = lack(shape.total_bytes()); !reason.empty()) GTEST_SKIP() << reason;
    step("making " + shape.text());
    make(shape);
    ASSERT_FALSE(HasFatalFailure());
    run_epoch(shape, 1, MarkedBy::host);
    ASSERT_FALSE(HasFailure());
    free();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace partita::test
