// Host-driven device requests: kernels mark, hosts or kernels await.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

enum class Grain { thread, plain, warp, block, range };
constexpr Grain grains[] = {Grain::thread, Grain::plain, Grain::warp, Grain::block, Grain::range};
const char* name_of(Grain grain) {
  static constexpr const char* names[] = {"thread", "plain", "warp", "block", "range"};
  return names[static_cast<int>(grain)];
}

/// Partition `p` gets its bytes of `round` by the threads that will mark it.
__device__ void write_partition(unsigned char* buffer, std::int64_t bytes, int p, std::uint64_t round, int lane,
                                int lanes) {
  for (std::int64_t i = p * bytes + lane; i < (p + 1) * bytes; i += lanes) buffer[i] = byte_at(round, i);
}

/// Every partition of `order` is written and marked; `codes` counts the calls that failed.
__global__ void write_and_mark(MPIX_Prequest prequest, unsigned char* buffer, std::int64_t bytes, const int* order,
                               int partitions, std::uint64_t round, Grain grain, int* codes) {
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  int failed = 0;
  switch (grain) {
    case Grain::thread:
    case Grain::plain:
      for (int i = thread; i < partitions; i += threads) {
        write_partition(buffer, bytes, order[i], round, 0, 1);
        failed +=
            (grain == Grain::plain ? MPIX_Pready(order[i], prequest) : MPIX_Pready_thread(order[i], prequest)) != 0;
      }
      break;
    case Grain::warp:
      for (int i = thread / 32; i < partitions; i += threads / 32) {
        write_partition(buffer, bytes, order[i], round, thread % 32, 32);
        failed += MPIX_Pready_warp(order[i], prequest) != 0;
      }
      break;
    case Grain::block:
      for (int i = static_cast<int>(blockIdx.x); i < partitions; i += static_cast<int>(gridDim.x)) {
        write_partition(buffer, bytes, order[i], round, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
        failed += MPIX_Pready_block(order[i], prequest) != 0;
      }
      break;
    case Grain::range:
      if (thread == 0) {
        for (int p = 0; p < partitions; ++p) write_partition(buffer, bytes, p, round, 0, 1);
        failed += MPIX_Pready_range(0, partitions - 1, prequest) != 0;
      }
      break;
  }
  if (failed != 0) atomicAdd(codes, failed);
}

/// Each partition is awaited by one thread and compared at that moment; `wrong` counts bad bytes.
__global__ void await_and_compare(MPIX_Prequest prequest, const unsigned char* buffer, std::int64_t bytes,
                                  int partitions, std::uint64_t round, unsigned long long* wrong) {
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  for (int p = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); p < partitions; p += threads) {
    int arrived = 0;
    const long long begin = clock64();
    while (arrived == 0) {
      if (MPIX_Parrived(prequest, p, &arrived) != 0 || clock64() - begin > 40'000'000'000LL) {
        atomicAdd(wrong, 1ULL << 32);
        return;
      }
    }
    unsigned long long bad = 0;
    for (std::int64_t i = p * bytes; i < (p + 1) * bytes; ++i) bad += buffer[i] != byte_at(round, i);
    if (bad != 0) atomicAdd(wrong, bad);
  }
}

/// A counter in host memory that kernels add to.
template <class T>
class Counter {
 public:
  Counter() {
    EXPECT_EQ(cudaMallocManaged(&value_, sizeof(T)), cudaSuccess);
    *value_ = 0;
  }
  ~Counter() { cudaFree(value_); }
  T* address() const { return value_; }
  T value() const { return *value_; }

 private:
  T* value_ = nullptr;
};

struct Shape {
  int send_partitions = 1;
  int recv_partitions = 1;
  std::int64_t unit_bytes = 0;  ///< total = send × recv × unit
  int transports = 0;           ///< wished; 0: the default

  std::int64_t total_bytes() const { return std::int64_t{send_partitions} * recv_partitions * unit_bytes; }
  std::int64_t send_bytes() const { return recv_partitions * unit_bytes; }
  std::int64_t recv_bytes() const { return send_partitions * unit_bytes; }
  std::string text() const {
    return std::to_string(send_partitions) + " send, " + std::to_string(recv_partitions) + " receive partitions, " +
           std::to_string(total_bytes()) + " bytes, " + std::to_string(transports) + " transports";
  }
};

Shape any_shape(Random& random) {
  Shape shape;
  shape.send_partitions = random.of(std::vector<int>{1, 2, 3, 7, 32, 33, 64});
  shape.recv_partitions = random.one_in(3) ? shape.send_partitions : random.of(std::vector<int>{1, 2, 5, 16, 33});
  shape.unit_bytes = random.of(std::vector<std::int64_t>{0, 1, 3, 8, 16, 100, 512});
  if (random.one_in(2)) shape.transports = random.integer(1, shape.send_partitions);
  return shape;
}

MPI_Info info_for(const Shape& shape) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  if (shape.transports > 0) {
    PMPI_Info_set(info, "partita_transport_partitions", std::to_string(shape.transports).c_str());
  }
  return info;
}

class Prequests : public FirstToLast {};

/// One matched pair over random shapes: kernels mark in random order at every grain, the receiver starts early or late
/// and compares each partition at the moment Parrived says so, in a kernel or on the host.
TEST_F(Prequests, what_kernels_mark_arrives_whole_and_once) {
  Random random(job_seed());
  const int rounds = 6;
  const long iterations = environment_number("PARTITEST_ITERATIONS", 25);
  for (int iteration = 0; iteration < iterations && !HasFatalFailure(); ++iteration) {
    const Shape shape = any_shape(random);
    step(shape.text());
    SCOPED_TRACE(shape.text());
    GpuBuffer send_buffer(shape.total_bytes());
    GpuBuffer recv_buffer(shape.total_bytes());
    MPI_Info info = info_for(shape);
    Partita_Request send = PARTITA_REQUEST_NULL;
    Partita_Request recv = PARTITA_REQUEST_NULL;
    if (sends()) {
      ASSERT_EQ(Partita_Psend_init(send_buffer.data(), shape.send_partitions, shape.send_bytes(), MPI_BYTE, receiver(),
                                   3, MPI_COMM_WORLD, info, &send),
                MPI_SUCCESS);
    }
    if (receives()) {
      ASSERT_EQ(Partita_Precv_init(recv_buffer.data(), shape.recv_partitions, shape.recv_bytes(), MPI_BYTE, sender(), 3,
                                   MPI_COMM_WORLD, info, &recv),
                MPI_SUCCESS);
    }
    Partita_Prequest send_device{};
    Partita_Prequest recv_device{};
    if (receives()) ASSERT_EQ(Partita_Prequest_create(&recv_device, recv), MPI_SUCCESS);
    if (sends()) ASSERT_EQ(Partita_Prequest_create(&send_device, send), MPI_SUCCESS);
    Counter<int> failed;
    Counter<unsigned long long> wrong;
    int* order_on_gpu = nullptr;
    CUDA_OK(cudaMalloc(&order_on_gpu, sizeof(int) * static_cast<std::size_t>(shape.send_partitions)));
    Stream sending;
    Stream receiving;
    for (int round = 1; round <= rounds; ++round) {
      const Grain grain = grains[random.integer(0, 4)];
      const auto order = random.permutation(shape.send_partitions);
      const int blocks = random.integer(1, 8);
      const bool late = random.one_in(3);
      const bool by_kernel = random.one_in(2);
      const bool prepares = random.one_in(2) && !late;
      SCOPED_TRACE(std::string("round ") + std::to_string(round) + ", grain " + name_of(grain) +
                   (late ? ", the receiver starts late" : "") + (by_kernel ? ", awaited by a kernel" : ""));
      const auto key = static_cast<std::uint64_t>(iteration * 100 + round);
      if (receives() && !late) ASSERT_EQ(Partita_Start(&recv), MPI_SUCCESS);
      if (sends()) {
        ASSERT_EQ(Partita_Start(&send), MPI_SUCCESS);
        if (prepares) ASSERT_EQ(Partita_Pbuf_prepare(send), MPI_SUCCESS);
        CUDA_OK(
            cudaMemcpyAsync(order_on_gpu, order.data(), order.size() * sizeof(int), cudaMemcpyHostToDevice, sending));
        write_and_mark<<<blocks, 64, 0, sending>>>(send_device, send_buffer.data(), shape.send_bytes(), order_on_gpu,
                                                   shape.send_partitions, key, grain, failed.address());
        CUDA_OK(cudaGetLastError());
        if (late) CUDA_OK(cudaStreamSynchronize(sending));
      }
      if (late) harness_barrier();
      if (receives()) {
        if (late) ASSERT_EQ(Partita_Start(&recv), MPI_SUCCESS);
        if (by_kernel) {
          await_and_compare<<<2, 32, 0, receiving>>>(recv_device, recv_buffer.data(), shape.recv_bytes(),
                                                     shape.recv_partitions, key, wrong.address());
          CUDA_OK(cudaGetLastError());
        } else {
          for (int p = 0; p < shape.recv_partitions; ++p) {
            int arrived = 0;
            while (arrived == 0) ASSERT_EQ(Partita_Parrived(recv, p, &arrived), MPI_SUCCESS);
            ASSERT_TRUE(recv_buffer.holds(key, p * shape.recv_bytes(), (p + 1) * shape.recv_bytes()));
          }
        }
      }
      if (sends()) ASSERT_EQ(Partita_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
      if (receives()) {
        ASSERT_EQ(Partita_Wait(&recv, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CUDA_OK(cudaStreamSynchronize(receiving));
        ASSERT_EQ(wrong.value(), 0u) << "bytes that a kernel saw wrong (2^32: it never saw an arrival)";
        ASSERT_TRUE(recv_buffer.holds(key, 0, shape.total_bytes()));
      }
      if (sends()) {
        CUDA_OK(cudaStreamSynchronize(sending));
        ASSERT_EQ(failed.value(), 0);
      }
    }
    if (sends()) ASSERT_EQ(Partita_Prequest_free(&send_device), MPI_SUCCESS);
    if (receives()) ASSERT_EQ(Partita_Prequest_free(&recv_device), MPI_SUCCESS);
    if (sends()) ASSERT_EQ(Partita_Request_free(&send), MPI_SUCCESS);
    if (receives()) ASSERT_EQ(Partita_Request_free(&recv), MPI_SUCCESS);
    PMPI_Info_free(&info);
    CUDA_OK(cudaFree(order_on_gpu));
    harness_barrier();  // requests before buffers, on both sides
  }
}

/// Hosts on both sides, or on one, and GPU memory on either side or both.
TEST_F(Prequests, hosts_mark_gpu_memory_too) {
  for (const bool send_on_gpu : {true, false}) {
    for (const bool recv_on_gpu : {true, false}) {
      const std::int64_t bytes = 48 * 1000;
      SCOPED_TRACE(std::string(send_on_gpu ? "GPU" : "host") + " to " + (recv_on_gpu ? "GPU" : "host"));
      GpuBuffer send_gpu(bytes);
      GpuBuffer recv_gpu(bytes);
      std::vector<unsigned char> send_host(bytes);
      std::vector<unsigned char> recv_host(bytes);
      Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
      if (sends()) {
        ASSERT_EQ(Partita_Psend_init(send_on_gpu ? send_gpu.data() : send_host.data(), 12, bytes / 12, MPI_BYTE,
                                     receiver(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]),
                  MPI_SUCCESS);
      }
      if (receives()) {
        ASSERT_EQ(Partita_Precv_init(recv_on_gpu ? recv_gpu.data() : recv_host.data(), 16, bytes / 16, MPI_BYTE,
                                     sender(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]),
                  MPI_SUCCESS);
      }
      for (std::uint64_t round = 1; round <= 4; ++round) {
        if (receives()) ASSERT_EQ(Partita_Start(&requests[1]), MPI_SUCCESS);
        if (sends()) {
          if (send_on_gpu) send_gpu.fill(round);
          for (std::int64_t i = 0; i < bytes; ++i) send_host[static_cast<std::size_t>(i)] = byte_at(round, i);
          ASSERT_EQ(Partita_Start(&requests[0]), MPI_SUCCESS);
          for (int p = 11; p >= 0; --p) ASSERT_EQ(Partita_Pready(p, requests[0]), MPI_SUCCESS);
        }
        ASSERT_EQ(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        if (!receives()) continue;
        if (recv_on_gpu) {
          ASSERT_TRUE(recv_gpu.holds(round, 0, bytes));
        } else {
          for (std::int64_t i = 0; i < bytes; ++i) ASSERT_EQ(recv_host[static_cast<std::size_t>(i)], byte_at(round, i));
        }
      }
      for (Partita_Request& request : requests) {
        if (request != PARTITA_REQUEST_NULL) ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
      }
      harness_barrier();
    }
  }
}

__global__ void mark_all(MPIX_Prequest prequest, int partitions) {
  const int partition = static_cast<int>(threadIdx.x);
  if (partition < partitions) MPIX_Pready(partition, prequest);
}

__global__ void mark_one(MPIX_Prequest prequest, int partition, int* code) {
  *code = MPIX_Pready_thread(partition, prequest);
}

class PrequestErrors : public Prequests {
 protected:
  static constexpr int partitions = 4;
  static constexpr std::int64_t bytes = 64;

  void SetUp() override {
    Prequests::SetUp();
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
      Counter<int> code;
      for (const int partition : marks) mark_one<<<1, 1>>>(device_, partition, code.address());
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_NE(code.value(), 0);
      int flag = 0;
      const int result = Partita_Test(&send_, &flag, MPI_STATUS_IGNORE);
      ASSERT_NE(result, MPI_SUCCESS);
      char text[MPI_MAX_ERROR_STRING] = "";
      int length = 0;
      Partita_Error_string(result, text, &length);
      EXPECT_NE(std::strstr(text, words.c_str()), nullptr) << text;
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
    Counter<int> code;
    mark_one<<<1, 1>>>(device_, 0, code.address());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(code.value(), PARTITA_DEVICE_ERR_INACTIVE);
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    int flag = 0;
    EXPECT_NE(Partita_Test(&send_, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
}

TEST_F(PrequestErrors, a_mark_after_the_device_request_was_freed) {
  if (sends()) {
    const Partita_Prequest stale = device_;
    ASSERT_EQ(Partita_Prequest_free(&device_), MPI_SUCCESS);
    Counter<int> code;
    mark_one<<<1, 1>>>(stale, 0, code.address());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(code.value(), PARTITA_DEVICE_ERR_FREED);
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
