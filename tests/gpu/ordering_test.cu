// The ordering contract between kernels of two processes, on every path that bytes take: who sees that a partition has
// arrived sees its bytes. Litmus tests: many short epochs, delays by chance, every grain, the receiver's old bytes in
// its caches. Two ranks, a GPU each.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdlib>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "gpu/gpu_requests.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr unsigned most_delay_ns = 2000;

/// Brings bytes [first, last) as they are now into this multiprocessor's cache; `sum` keeps the loads alive.
__device__ void touch(const unsigned char* buffer, std::int64_t first, std::int64_t last, unsigned* sum) {
  unsigned seen = 0;
  for (std::int64_t i = first; i < last; i += 32) seen += buffer[i];
  if (seen == 0xffffffffU) *sum = seen;
}

__global__ void __launch_bounds__(256)
    mark_all(MPIX_Prequest send, std::uint64_t round, Grain grain, Verdict* verdict) {
  fill_and_mark(send, round, grain, most_delay_ns, verdict);
}

/// Each thread asks for its own partitions and compares each as soon as it is there.
__device__ void poll_own(const MPIX_Prequest& recv, std::uint64_t round, unsigned* sum, Verdict* verdict) {
  const std::int64_t bytes = recv.total_bytes / recv.recv_partitions;
  for (int p = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); p < recv.recv_partitions;
       p += static_cast<int>(gridDim.x * blockDim.x)) {
    touch(recv.buffer, p * bytes, (p + 1) * bytes, sum);
    if (!poll(recv, p, recv.limit_ns, verdict)) return;
    compare(recv.buffer, p * bytes, (p + 1) * bytes, 1, round, verdict);
  }
}

__global__ void __launch_bounds__(256)
    poll_all(MPIX_Prequest recv, std::uint64_t round, unsigned* sum, Verdict* verdict) {
  poll_own(recv, round, sum, verdict);
}

/// Each block waits for its own partitions; all of its threads compare.
__global__ void __launch_bounds__(256)
    await_all(MPIX_Prequest recv, std::uint64_t round, unsigned* sum, Verdict* verdict) {
  const std::int64_t bytes = recv.total_bytes / recv.recv_partitions;
  for (int p = static_cast<int>(blockIdx.x); p < recv.recv_partitions; p += static_cast<int>(gridDim.x)) {
    touch(recv.buffer, p * bytes, (p + 1) * bytes, sum);
    if (failed(MPIX_Pwait_partition(p, recv), verdict)) return;
    compare(recv.buffer, p * bytes + threadIdx.x, (p + 1) * bytes, blockDim.x, round, verdict);
  }
}

/// Device-driven: all rounds in one launch of one block on either side.
__global__ void __launch_bounds__(256) send_rounds(MPIX_Prequest send, int rounds, Grain grain, Verdict* verdict) {
  for (int round = 1; round <= rounds; ++round) {
    if (failed(MPIX_Pstart(send), verdict) || failed(MPIX_Pbuf_prepare(send), verdict)) return;
    fill_and_mark(send, static_cast<std::uint64_t>(round), grain, most_delay_ns, verdict);
    if (failed(MPIX_Pwait(send), verdict)) return;
  }
}

__global__ void __launch_bounds__(256) recv_rounds(MPIX_Prequest recv, int rounds, unsigned* sum, Verdict* verdict) {
  for (int round = 1; round <= rounds; ++round) {
    chance_delay(static_cast<std::uint64_t>(round), 4 * most_delay_ns);
    if (failed(MPIX_Pstart(recv), verdict)) return;
    poll_own(recv, static_cast<std::uint64_t>(round), sum, verdict);
    __syncthreads();  // nobody asks while MPIX_Pwait runs
    if (failed(MPIX_Pwait(recv), verdict)) return;
  }
}

struct Shape {
  int send_partitions;
  int recv_partitions;
  int transport_partitions;
  std::int64_t total_bytes;
  std::string text() const {
    return std::to_string(send_partitions) + " send, " + std::to_string(recv_partitions) + " receive, " +
           std::to_string(transport_partitions) + " transport partitions, " + std::to_string(total_bytes) + " bytes";
  }
};

class Ordering : public FirstToLast {
 protected:
  void make(const Shape& shape, GpuBuffer& buffer, const char* driver) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", driver);
    PMPI_Info_set(info, "partita_transport_partitions", std::to_string(shape.transport_partitions).c_str());
    if (sends()) {
      ASSERT_EQ(Partita_Psend_init(buffer.data(), shape.send_partitions, shape.total_bytes / shape.send_partitions,
                                   MPI_BYTE, receiver(), 13, MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    } else {
      ASSERT_EQ(Partita_Precv_init(buffer.data(), shape.recv_partitions, shape.total_bytes / shape.recv_partitions,
                                   MPI_BYTE, sender(), 13, MPI_COMM_WORLD, info, &request_),
                MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
    ASSERT_EQ(Partita_Prequest_create(&device_, request_), MPI_SUCCESS);
  }
  void free() {
    ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    harness_barrier();
  }
  /// What PARTITA_GPU_COPY demands of this entry.
  static std::string demanded_copy() {
    const char* copy = std::getenv("PARTITA_GPU_COPY");
    return copy == nullptr ? "" : copy;
  }

  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_{};
};

TEST_F(Ordering, who_sees_an_arrival_of_a_host_driven_send_sees_its_bytes) {
  const Shape shapes[] = {{32, 16, 1, 32 * 64}, {32, 32, 8, 32 * 96}, {16, 8, 16, 16 * 4096}};
  const int rounds = static_cast<int>(environment_number("PARTITEST_ROUNDS", 60));
  ASSERT_FALSE(demanded_copy().empty()) << "PARTITA_GPU_COPY must say which path is meant";
  for (const Shape& shape : shapes) {
    GpuBuffer buffer(shape.total_bytes);
    GpuBuffer sum(sizeof(unsigned));
    make(shape, buffer, "host");
    if (HasFatalFailure()) return;
    if (sends()) ASSERT_EQ(told(request_, "partita_gpu_copy"), demanded_copy());
    SharedVerdict verdict;
    Stream stream;
    std::uint64_t key = 0;
    for (const Grain grain : grains) {
      const std::string text = shape.text() + ", grain " + name_of(grain);
      SCOPED_TRACE(text);
      step(text);
      for (int round = 0; round < rounds; ++round) {
        ++key;
        ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
        auto* const seen = reinterpret_cast<unsigned*>(sum.data());
        if (sends()) {
          mark_all<<<4, 64, 0, stream>>>(device_, key, grain, verdict.get());
        } else if (round % 2 == 0) {
          poll_all<<<4, 8, 0, stream>>>(device_, key, seen, verdict.get());
        } else {
          await_all<<<8, 64, 0, stream>>>(device_, key, seen, verdict.get());
        }
        CUDA_OK(cudaGetLastError());
        ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CUDA_OK(cudaStreamSynchronize(stream));
      }
      verdict.expect_good();
      if (from_any_rank(HasFailure())) return;
    }
    free();
  }
}

TEST_F(Ordering, who_sees_an_arrival_of_a_device_driven_send_sees_its_bytes) {
  if (demanded_copy() == "engine") GTEST_SKIP() << "device-driven requests take no engine";
  // As packets, and as bytes with flags behind them.
  const Shape shapes[] = {{64, 32, 4, 64 * 64}, {32, 32, 8, 32 * 1024}, {32, 32, 8, 64 * 1024}, {32, 16, 1, 32 * 1024}};
  const int rounds = static_cast<int>(environment_number("PARTITEST_ROUNDS", 2000));
  for (const Shape& shape : shapes) {
    for (const Grain grain : grains) {
      const std::string text = shape.text() + ", grain " + name_of(grain);
      SCOPED_TRACE(text);
      step(text);
      GpuBuffer buffer(shape.total_bytes);
      GpuBuffer sum(sizeof(unsigned));
      make(shape, buffer, "device");
      if (HasFatalFailure()) return;
      EXPECT_EQ(told(request_, "partita_packets"),
                fits_packets(shape.send_partitions, shape.recv_partitions, shape.total_bytes) ? "true" : "false");
      SharedVerdict verdict;
      Stream stream;
      harness_barrier();
      if (sends()) {
        send_rounds<<<1, 96, 0, stream>>>(device_, rounds, grain, verdict.get());
      } else {
        recv_rounds<<<1, 32, 0, stream>>>(device_, rounds, reinterpret_cast<unsigned*>(sum.data()), verdict.get());
      }
      CUDA_OK(cudaGetLastError());
      CUDA_OK(cudaStreamSynchronize(stream));
      verdict.expect_good();
      if (from_any_rank(HasFailure())) return;
      free();
    }
  }
}

}  // namespace
}  // namespace partita::test
