// Host-driven device requests: kernels mark, hosts or kernels await.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
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

enum class Await { host, parrived, wait_partition, wait };
constexpr Await awaits[] = {Await::host, Await::parrived, Await::wait_partition, Await::wait};
const char* name_of(Await await) {
  static constexpr const char* names[] = {"the host", "Parrived in a kernel", "Pwait_partition", "Pwait in a kernel"};
  return names[static_cast<int>(await)];
}

/// What a kernel adds to its count of wrong bytes where a call failed, or an arrival was never seen.
constexpr unsigned long long call_failed = 1ULL << 32;

/// Bytes from `first` to `last` that are not those of `round`, counted by the threads of a block.
__device__ void compare(const unsigned char* buffer, std::int64_t first, std::int64_t last, std::uint64_t round,
                        unsigned long long* wrong) {
  unsigned long long bad = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) bad += buffer[i] != byte_at(round, i);
  if (bad != 0) atomicAdd(wrong, bad);
}

/// Each partition is awaited by a block, and all of it compared then.
__global__ void wait_partitions_and_compare(MPIX_Prequest prequest, const unsigned char* buffer, std::int64_t bytes,
                                            int partitions, std::uint64_t round, unsigned long long* wrong) {
  for (int p = static_cast<int>(blockIdx.x); p < partitions; p += static_cast<int>(gridDim.x)) {
    if (MPIX_Pwait_partition(p, prequest) != 0) {
      if (threadIdx.x == 0) atomicAdd(wrong, call_failed);
      return;
    }
    compare(buffer, p * bytes, (p + 1) * bytes, round, wrong);
  }
}

/// One block awaits the epoch.
__global__ void wait_and_compare(MPIX_Prequest prequest, const unsigned char* buffer, std::int64_t total_bytes,
                                 std::uint64_t round, unsigned long long* wrong) {
  if (MPIX_Pwait(prequest) != 0) {
    if (threadIdx.x == 0) atomicAdd(wrong, call_failed);
    return;
  }
  compare(buffer, 0, total_bytes, round, wrong);
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
        atomicAdd(wrong, call_failed);
        return;
      }
    }
    unsigned long long bad = 0;
    for (std::int64_t i = p * bytes; i < (p + 1) * bytes; ++i) bad += buffer[i] != byte_at(round, i);
    if (bad != 0) atomicAdd(wrong, bad);
  }
}

struct Shape {
  int send_partitions = 1;
  int recv_partitions = 1;
  std::int64_t unit_bytes = 0;  ///< total = send × recv × unit
  int transports = 0;           ///< wished; 0: the default
  Placement from = Placement::gpu;
  Placement into = Placement::gpu;

  std::int64_t total_bytes() const { return std::int64_t{send_partitions} * recv_partitions * unit_bytes; }
  std::int64_t send_bytes() const { return recv_partitions * unit_bytes; }
  std::int64_t recv_bytes() const { return send_partitions * unit_bytes; }
  std::string text() const {
    return std::to_string(send_partitions) + " send, " + std::to_string(recv_partitions) + " receive partitions, " +
           std::to_string(total_bytes()) + " bytes, " + std::to_string(transports) + " transports, " + name_of(from) +
           " to " + name_of(into) + " memory";
  }
};

/// Iterations take turns: from GPU to GPU, to host memory, from host memory.
Shape any_shape(Random& random, long iteration) {
  Shape shape;
  shape.send_partitions = random.of(std::vector<int>{1, 2, 3, 7, 32, 33, 64});
  shape.recv_partitions = random.one_in(3) ? shape.send_partitions : random.of(std::vector<int>{1, 2, 5, 16, 33});
  shape.unit_bytes = random.of(std::vector<std::int64_t>{0, 1, 3, 8, 16, 100, 512});
  if (random.one_in(2)) shape.transports = random.integer(1, shape.send_partitions);
  const std::vector<Placement> gpu_memory = {Placement::gpu, Placement::gpu, Placement::mapped};
  shape.from = iteration % 3 == 2 ? Placement::host : random.of(gpu_memory);
  shape.into = iteration % 3 == 1 ? Placement::host : random.of(gpu_memory);
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

/// How one epoch is marked and awaited.
struct Round {
  std::uint64_t key;
  Grain grain;
  std::vector<int> order;
  int blocks;
  Await await = Await::host;
  bool late = false;      ///< the receiver starts after all is marked
  bool prepares = false;  ///< the sender's host waits for the receiver's start

  std::string text() const {
    return "data " + std::to_string(key) + ", grain " + name_of(grain) + ", awaited by " + name_of(await) +
           (late ? ", the receiver starts late" : "");
  }
};

Round any_round(Random& random, const Shape& shape, std::uint64_t key) {
  Round round{key, grains[random.integer(0, 4)], random.permutation(shape.send_partitions), random.integer(1, 8)};
  round.await = awaits[shape.into == Placement::host ? 0 : random.integer(0, 3)];
  round.late = random.one_in(3);
  round.prepares = random.one_in(2) && !round.late;
  return round;
}

/// A matched pair of one shape: kernels mark and await at its ends in GPU memory, the host at one in its own.
class RandomPrequests : public Prequests {
 protected:
  void make(const Shape& shape) {
    shape_ = shape;
    out_ = std::make_unique<AnyBuffer>(shape.total_bytes(), shape.from);
    in_ = std::make_unique<AnyBuffer>(shape.total_bytes(), shape.into);
    CUDA_OK(cudaMalloc(&order_on_gpu_, sizeof(int) * static_cast<std::size_t>(shape.send_partitions)));
    MPI_Info info = info_for(shape);
    if (sends()) {
      ASSERT_EQ(Partita_Psend_init(out_->data(), shape.send_partitions, shape.send_bytes(), MPI_BYTE, receiver(), 3,
                                   MPI_COMM_WORLD, info, &send_),
                MPI_SUCCESS);
    }
    if (receives()) {
      ASSERT_EQ(Partita_Precv_init(in_->data(), shape.recv_partitions, shape.recv_bytes(), MPI_BYTE, sender(), 3,
                                   MPI_COMM_WORLD, info, &recv_),
                MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
    if (receives() && in_->on_gpu()) ASSERT_EQ(Partita_Prequest_create(&device_recv_, recv_), MPI_SUCCESS);
    if (sends() && out_->on_gpu()) {
      ASSERT_EQ(Partita_Prequest_create(&device_send_, send_), MPI_SUCCESS);
      ASSERT_TRUE(goes(send_, in_->on_gpu() && kernels_reach(sender(), receiver()), false));
    }
  }

  void free() {
    if (sends() && out_->on_gpu()) ASSERT_EQ(Partita_Prequest_free(&device_send_), MPI_SUCCESS);
    if (receives() && in_->on_gpu()) ASSERT_EQ(Partita_Prequest_free(&device_recv_), MPI_SUCCESS);
    if (sends()) ASSERT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
    if (receives()) ASSERT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    harness_barrier();  // requests before buffers, on both sides
    CUDA_OK(cudaFree(order_on_gpu_));
    out_.reset();
    in_.reset();
  }

  void run(const Round& round) {
    if (receives() && !round.late) ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    if (sends()) mark(round);
    if (round.late) harness_barrier();
    if (receives() && round.late) ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    if (receives()) await(round);
    if (HasFatalFailure()) return;
    if (sends()) ASSERT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (receives()) {
      ASSERT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      CUDA_OK(cudaStreamSynchronize(receiving_));
      ASSERT_EQ(*wrong_, 0u) << "bytes that a kernel saw wrong (2^32: a call failed, or an arrival was never seen)";
      ASSERT_TRUE(in_->holds(round.key, 0, shape_.total_bytes()));
    }
    if (sends()) {
      CUDA_OK(cudaStreamSynchronize(sending_));
      ASSERT_EQ(*failed_, 0);
    }
  }

 private:
  void mark(const Round& round) {
    ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
    if (round.prepares) ASSERT_EQ(Partita_Pbuf_prepare(send_), MPI_SUCCESS);
    const std::int64_t bytes = shape_.send_bytes();
    if (!out_->on_gpu()) {
      for (const int p : round.order) {
        out_->fill(round.key, p * bytes, (p + 1) * bytes);
        ASSERT_EQ(Partita_Pready(p, send_), MPI_SUCCESS);
      }
      return;
    }
    CUDA_OK(cudaMemcpyAsync(order_on_gpu_, round.order.data(), round.order.size() * sizeof(int), cudaMemcpyHostToDevice,
                            sending_));
    write_and_mark<<<round.blocks, 64, 0, sending_>>>(device_send_, out_->data(), bytes, order_on_gpu_,
                                                      shape_.send_partitions, round.key, round.grain, failed_.get());
    CUDA_OK(cudaGetLastError());
    if (round.late) CUDA_OK(cudaStreamSynchronize(sending_));
  }

  void await(const Round& round) {
    const std::int64_t bytes = shape_.recv_bytes();
    const int partitions = shape_.recv_partitions;
    switch (round.await) {
      case Await::host:
        return await_on_host(round.key);
      case Await::parrived:
        await_and_compare<<<2, 32, 0, receiving_>>>(device_recv_, in_->data(), bytes, partitions, round.key,
                                                    wrong_.get());
        break;
      case Await::wait_partition:
        wait_partitions_and_compare<<<round.blocks, 64, 0, receiving_>>>(device_recv_, in_->data(), bytes, partitions,
                                                                         round.key, wrong_.get());
        break;
      case Await::wait:
        wait_and_compare<<<1, 96, 0, receiving_>>>(device_recv_, in_->data(), shape_.total_bytes(), round.key,
                                                   wrong_.get());
        break;
    }
    CUDA_OK(cudaGetLastError());
  }

  void await_on_host(std::uint64_t key) {
    const std::int64_t bytes = shape_.recv_bytes();
    for (int p = 0; p < shape_.recv_partitions; ++p) {
      int arrived = 0;
      while (arrived == 0) ASSERT_EQ(Partita_Parrived(recv_, p, &arrived), MPI_SUCCESS);
      ASSERT_TRUE(in_->holds(key, p * bytes, (p + 1) * bytes));
    }
  }

  Shape shape_;
  std::unique_ptr<AnyBuffer> out_;
  std::unique_ptr<AnyBuffer> in_;
  int* order_on_gpu_ = nullptr;
  Partita_Request send_ = PARTITA_REQUEST_NULL;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_send_{};
  Partita_Prequest device_recv_{};
  Managed<int> failed_;
  Managed<unsigned long long> wrong_;
  Stream sending_;
  Stream receiving_;
};

/// Pairs of random shapes: kernels mark in random order at every grain, the receiver starts early or late, and each
/// partition is compared at the moment at which the host or a kernel hears of it.
TEST_F(RandomPrequests, what_kernels_mark_arrives_whole_and_once) {
  Random random(job_seed());
  const std::uint64_t rounds = 6;
  const long iterations = environment_number("PARTITEST_ITERATIONS", 30);
  const char* copy = std::getenv("PARTITA_GPU_COPY");
  const bool kernels_must_copy = copy != nullptr && std::strcmp(copy, "kernel") == 0;
  for (long iteration = 0; iteration < iterations; ++iteration) {
    const Shape shape = any_shape(random, iteration);
    if (kernels_must_copy && shape.into == Placement::host) continue;
    step(shape.text());
    SCOPED_TRACE(shape.text());
    make(shape);
    if (HasFatalFailure()) return;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      const Round round = any_round(random, shape, static_cast<std::uint64_t>(iteration) * 100 + i);
      SCOPED_TRACE(round.text());
      run(round);
      if (HasFatalFailure()) return;
    }
    free();
    if (HasFatalFailure()) return;
  }
}

/// Until `stop` is not 0, or for some seconds.
__global__ void keep_busy(const volatile int* stop) {
  const long long begin = clock64();
  while (*stop == 0 && clock64() - begin < 20'000'000'000LL) continue;
}

/// The word of the host that `prequest` knows says that no epoch was started: kernels that ask it are refused.
TEST_F(Prequests, what_the_host_has_seen_of_the_receiver_kernels_need_not_ask) {
  constexpr int partitions = 8;
  constexpr std::int64_t bytes = 1000;
  const GpuBuffer out(partitions * bytes);
  const GpuBuffer in(partitions * bytes);
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request recv = PARTITA_REQUEST_NULL;
  if (receives()) {
    ASSERT_EQ(
        Partita_Precv_init(in.data(), partitions, bytes, MPI_BYTE, sender(), 6, MPI_COMM_WORLD, MPI_INFO_NULL, &recv),
        MPI_SUCCESS);
  }
  Partita_Prequest device{};
  if (sends()) {
    ASSERT_EQ(Partita_Psend_init(out.data(), partitions, bytes, MPI_BYTE, receiver(), 6, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &send),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Prequest_create(&device, send), MPI_SUCCESS);
  }
  const Managed<int> stop;
  const Managed<int> failed;
  const Managed<partita_u64> never_started;
  const Managed<std::array<int, partitions>> order;
  std::iota(order->begin(), order->end(), 0);
  const Stream busy;
  const Stream looking;
  const Stream sending;
  Partita_Prequest no_word = device;
  no_word.promise = never_started.get();

  for (std::uint64_t round = 1; round <= 6; ++round) {
    SCOPED_TRACE(round);
    if (receives()) ASSERT_EQ(Partita_Start(&recv), MPI_SUCCESS);
    if (sends()) {
      ASSERT_EQ(Partita_Start(&send), MPI_SUCCESS);
      // On a stream of the program's, behind which nothing of the library's may stand.
      *stop = 0;
      if (round % 2 == 0) keep_busy<<<1, 1, 0, busy>>>(stop.get());
      ASSERT_EQ(Partita_Pbuf_prepare(send), MPI_SUCCESS);
      partita_u64 head = 0;
      const double limit = PMPI_Wtime() + 5;
      while (device::high_half(head) == 0 || device::high_half(head) != device::low_half(head)) {
        ASSERT_LT(PMPI_Wtime(), limit) << "the GPU was not told";
        CUDA_OK(cudaMemcpyAsync(&head, &device.state->head, sizeof head, cudaMemcpyDeviceToHost, looking));
        CUDA_OK(cudaStreamSynchronize(looking));
      }
      write_and_mark<<<2, 64, 0, sending>>>(no_word, out.data(), bytes, order->data(), partitions, round,
                                            grains[round % 5], failed.get());
      CUDA_OK(cudaGetLastError());
      CUDA_OK(cudaStreamSynchronize(sending));
      *static_cast<volatile int*>(stop.get()) = 1;
      EXPECT_EQ(*failed, 0);
    }
    if (receives()) ASSERT_EQ(Partita_Wait(&recv, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (sends()) ASSERT_EQ(Partita_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (receives()) ASSERT_TRUE(in.holds(round, 0, partitions * bytes));
    CUDA_OK(cudaStreamSynchronize(busy));
  }
  if (sends()) {
    ASSERT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    ASSERT_EQ(Partita_Request_free(&send), MPI_SUCCESS);
  }
  if (receives()) ASSERT_EQ(Partita_Request_free(&recv), MPI_SUCCESS);
  harness_barrier();  // requests before buffers, on both sides
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

}  // namespace
}  // namespace partita::test
