// Requests whose two sides have different drivers: kernels open the epochs at one end, the host at the other. Two
// ranks, a GPU each.
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

constexpr int tag = 11;

/// What the kernels of a rank find.
struct Tally {
  unsigned long long wrong_bytes = 0;
  int failed_call = 0;  ///< the first code that was not 0
  int rounds = 0;
};

/// By all threads of a block, which get the same `code`.
__device__ bool failed(int code, Tally* tally) {
  if (code != 0 && threadIdx.x == 0) atomicCAS(&tally->failed_call, 0, code);
  return code != 0;
}

__device__ void write(unsigned char* out, std::int64_t first, std::int64_t last, int round) {
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    out[i] = byte_at(static_cast<std::uint64_t>(round), i);
  }
}

__device__ void compare(const unsigned char* in, std::int64_t first, std::int64_t last, int round, Tally* tally) {
  unsigned long long wrong = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    wrong += in[i] != byte_at(static_cast<std::uint64_t>(round), i);
  }
  if (wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
}

/// One block opens, marks and awaits every epoch of a device-driven send.
__global__ void send_rounds(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, int partitions, int rounds,
                            Tally* tally) {
  for (int round = 1; round <= rounds; ++round) {
    if (failed(MPIX_Pstart(send), tally)) return;
    write(out, 0, bytes * partitions, round);
    if (failed(MPIX_Pbuf_prepare(send), tally)) return;
    for (int p = partitions - 1; p >= 0; --p) {
      if (failed(MPIX_Pready_block(p, send), tally)) return;
    }
    if (failed(MPIX_Pwait(send), tally)) return;
    if (threadIdx.x == 0) tally->rounds = round;
  }
}

/// One block opens and awaits every epoch of a device-driven receive: each third by partitions, and each fourth opened
/// late, so that marks come before it.
__global__ void receive_rounds(MPIX_Prequest recv, const unsigned char* in, std::int64_t bytes, int partitions,
                               int rounds, Tally* tally) {
  for (int round = 1; round <= rounds; ++round) {
    const partita_u64 since = device::now_ns();
    while (round % 4 == 0 && device::now_ns() - since < 100'000) {
    }
    if (failed(MPIX_Pstart(recv), tally)) return;
    for (int p = 0; round % 3 == 0 && p < partitions; ++p) {
      if (failed(MPIX_Pwait_partition(p, recv), tally)) return;
      compare(in, p * bytes, (p + 1) * bytes, round, tally);
    }
    if (failed(MPIX_Pwait(recv), tally)) return;
    compare(in, 0, bytes * partitions, round, tally);
    if (threadIdx.x == 0) tally->rounds = round;
  }
}

/// Block b writes and marks partition b.
__global__ void write_and_mark(MPIX_Prequest send, unsigned char* out, std::int64_t bytes, int round, Tally* tally) {
  const int p = static_cast<int>(blockIdx.x);
  write(out, p * bytes, (p + 1) * bytes, round);
  failed(MPIX_Pready_block(p, send), tally);
}

/// Block b awaits partition b of a host-driven receive.
__global__ void wait_and_compare(MPIX_Prequest recv, const unsigned char* in, std::int64_t bytes, int round,
                                 Tally* tally) {
  const int p = static_cast<int>(blockIdx.x);
  if (failed(MPIX_Pwait_partition(p, recv), tally)) return;
  compare(in, p * bytes, (p + 1) * bytes, round, tally);
}

struct Shape {
  std::int64_t partition_bytes;
  int partitions;
  int rounds;
  Placement placement = Placement::gpu;

  std::int64_t total_bytes() const { return partition_bytes * partitions; }
  std::string text() const {
    return std::to_string(partitions) + " partitions of " + std::to_string(partition_bytes) + " bytes, " +
           name_of(placement) + " memory";
  }
};
// The first two would travel as packets between two device-driven sides.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {
      {8, 1, 300}, {64, 16, 300}, {1001, 5, 300}, {65'536, 16, 100}, {4096, 4, 100, Placement::mapped}};
  for (Shape& shape : all) shape.rounds = static_cast<int>(environment_number("PARTITEST_ROUNDS", shape.rounds));
  return all;
}

class MixedDrivers : public FirstToLast {
 protected:
  /// Also a check that the bytes go as they must. `gpu_copy`: the sender's info key.
  void make(const Shape& shape, const AnyBuffer& buffer, const std::string& send_driver, const std::string& recv_driver,
            const std::string& gpu_copy) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", (sends() ? send_driver : recv_driver).c_str());
    if (sends()) {
      PMPI_Info_set(info, "partita_gpu_copy", gpu_copy.c_str());
      ASSERT_EQ(Partita_Psend_init(buffer.data(), shape.partitions, shape.partition_bytes, MPI_BYTE, receiver(), tag,
                                   MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    } else {
      ASSERT_EQ(Partita_Precv_init(buffer.data(), shape.partitions, shape.partition_bytes, MPI_BYTE, sender(), tag,
                                   MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
    if (sends()) ASSERT_TRUE(goes(request_, gpu_copy != "engine" && kernels_reach(sender(), receiver()), false));
    harness_barrier();
  }

  void free() {
    ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }

  void expect_all_well(const Shape& shape) {
    EXPECT_EQ(tally_->failed_call, 0) << "after round " << tally_->rounds;
    EXPECT_EQ(tally_->wrong_bytes, 0u);
    EXPECT_EQ(tally_->rounds, shape.rounds);
  }

  /// The host opens each epoch of the receive, which the host's Wait, its Parrived, or a kernel awaits.
  void receive_on_host(const Shape& shape, const AnyBuffer& in) {
    for (int round = 1; round <= shape.rounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      const auto key = static_cast<std::uint64_t>(round);
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      for (int p = 0; round % 3 == 1 && p < shape.partitions; ++p) {
        int arrived = 0;
        while (arrived == 0) ASSERT_EQ(Partita_Parrived(request_, p, &arrived), MPI_SUCCESS);
        ASSERT_TRUE(in.holds(key, p * shape.partition_bytes, (p + 1) * shape.partition_bytes));
      }
      if (round % 3 == 2) {
        wait_and_compare<<<shape.partitions, 64, 0, stream_>>>(device_, in.data(), shape.partition_bytes, round,
                                                               tally_.get());
        CUDA_OK(cudaGetLastError());
      }
      ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      CUDA_OK(cudaStreamSynchronize(stream_));
      ASSERT_TRUE(in.holds(key, 0, shape.total_bytes()));
      tally_->rounds = round;
    }
  }

  /// The host opens each epoch of the send, and prepares each fifth; a kernel marks it.
  void send_from_host(const Shape& shape, const AnyBuffer& out) {
    for (int round = 1; round <= shape.rounds; ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      if (round % 5 == 0) ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
      write_and_mark<<<shape.partitions, 64, 0, stream_>>>(device_, out.data(), shape.partition_bytes, round,
                                                           tally_.get());
      CUDA_OK(cudaGetLastError());
      ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      CUDA_OK(cudaStreamSynchronize(stream_));
      tally_->rounds = round;
    }
  }

  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
  Managed<Tally> tally_;
  Stream stream_;
};

TEST_F(MixedDrivers, a_device_driven_send_meets_a_host_driven_receive) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.text());
    step(shape.text());
    AnyBuffer buffer(shape.total_bytes(), shape.placement);
    make(shape, buffer, "device", "host", "auto");
    ASSERT_FALSE(HasFatalFailure());
    *tally_ = {};
    if (sends()) {
      send_rounds<<<1, 128, 0, stream_>>>(device_, buffer.data(), shape.partition_bytes, shape.partitions, shape.rounds,
                                          tally_.get());
      CUDA_OK(cudaGetLastError());
    } else {
      receive_on_host(shape, buffer);
    }
    CUDA_OK(cudaStreamSynchronize(stream_));
    expect_all_well(shape);
    ASSERT_FALSE(HasFailure());
    free();
  }
}

TEST_F(MixedDrivers, a_host_driven_send_meets_a_device_driven_receive) {
  for (const Shape& shape : shapes()) {
    for (const std::string gpu_copy : {"auto", "engine"}) {
      SCOPED_TRACE(shape.text() + ", copy by " + gpu_copy);
      step(shape.text() + ", copy by " + gpu_copy);
      AnyBuffer buffer(shape.total_bytes(), shape.placement);
      make(shape, buffer, "host", "device", gpu_copy);
      ASSERT_FALSE(HasFatalFailure());
      *tally_ = {};
      if (receives()) {
        receive_rounds<<<1, 128, 0, stream_>>>(device_, buffer.data(), shape.partition_bytes, shape.partitions,
                                               shape.rounds, tally_.get());
        CUDA_OK(cudaGetLastError());
      } else {
        send_from_host(shape, buffer);
      }
      CUDA_OK(cudaStreamSynchronize(stream_));
      expect_all_well(shape);
      ASSERT_FALSE(HasFailure());
      free();
    }
  }
}

}  // namespace
}  // namespace partita::test
