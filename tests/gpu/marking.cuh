// What kernels of the tests share: to fill and mark partitions at every grain, and to report what they find.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdint>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "support/told.hpp"

namespace partita::test {

enum class Grain { thread, plain, warp, block, range };
inline constexpr Grain grains[] = {Grain::thread, Grain::plain, Grain::warp, Grain::block, Grain::range};
inline const char* name_of(Grain grain) {
  static constexpr const char* names[] = {"thread", "plain", "warp", "block", "range"};
  return names[static_cast<int>(grain)];
}

/// What kernels find wrong; in host memory.
struct Verdict {
  unsigned long long wrong_bytes;
  int failed_calls;
  int code;           ///< of one of them
  int never_arrived;  ///< partitions that a loop of the test gave up
};

class SharedVerdict {
 public:
  SharedVerdict() {
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&verdict_), sizeof(Verdict), cudaHostAllocPortable), cudaSuccess);
    *verdict_ = {};
  }
  ~SharedVerdict() { cudaFreeHost(verdict_); }
  SharedVerdict(const SharedVerdict&) = delete;
  SharedVerdict& operator=(const SharedVerdict&) = delete;
  Verdict* get() const { return verdict_; }
  void expect_good() const {
    EXPECT_EQ(verdict_->failed_calls, 0) << "code " << verdict_->code;
    EXPECT_EQ(verdict_->wrong_bytes, 0u);
    EXPECT_EQ(verdict_->never_arrived, 0);
  }

 private:
  Verdict* verdict_ = nullptr;
};

/// Whether it is so on any rank. Collective.
inline bool from_any_rank(bool own) {
  int found = own ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MAX, harness_comm());
  return found != 0;
}

// ---- In kernels ----------------------------------------------------------------------------------------------------

__device__ inline bool failed(int code, Verdict* verdict) {
  if (code == PARTITA_DEVICE_SUCCESS) return false;
  verdict->code = code;
  atomicAdd_system(&verdict->failed_calls, 1);
  return true;
}

/// Now and then a wait of up to `most_ns`, by chance.
__device__ inline void chance_delay(std::uint64_t seed, unsigned most_ns) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  if (most_ns != 0 && x % 4 == 0) __nanosleep(static_cast<unsigned>(x >> 8) % most_ns);
}

/// Partition `p` of `round` by `lanes` threads.
__device__ inline void write_partition(unsigned char* buffer, std::int64_t bytes, int p, std::uint64_t round, int lane,
                                       int lanes) {
  for (std::int64_t i = p * bytes + lane; i < (p + 1) * bytes; i += lanes) buffer[i] = byte_at(round, i);
}

/// All threads of the grid: fill and mark all partitions once, each by the threads that `grain` says.
__device__ inline void fill_and_mark(const MPIX_Prequest& send, std::uint64_t round, Grain grain,
                                     unsigned most_delay_ns, Verdict* verdict) {
  const int partitions = send.send_partitions;
  const std::int64_t bytes = send.total_bytes / partitions;
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  const std::uint64_t seed = round * 1000003 + static_cast<std::uint64_t>(thread);
  switch (grain) {
    case Grain::thread:
    case Grain::plain:
      for (int p = thread; p < partitions; p += threads) {
        write_partition(send.buffer, bytes, p, round, 0, 1);
        chance_delay(seed, most_delay_ns);
        failed(grain == Grain::plain ? MPIX_Pready(p, send) : MPIX_Pready_thread(p, send), verdict);
      }
      break;
    case Grain::warp:
      for (int p = thread / 32; p < partitions; p += threads / 32) {
        write_partition(send.buffer, bytes, p, round, thread % 32, 32);
        chance_delay(seed, most_delay_ns);
        failed(MPIX_Pready_warp(p, send), verdict);
      }
      break;
    case Grain::block:
      for (int p = static_cast<int>(blockIdx.x); p < partitions; p += static_cast<int>(gridDim.x)) {
        write_partition(send.buffer, bytes, p, round, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
        chance_delay(seed, most_delay_ns);
        failed(MPIX_Pready_block(p, send), verdict);
      }
      break;
    case Grain::range: {
      const int begin = static_cast<int>(static_cast<std::int64_t>(partitions) * thread / threads);
      const int end = static_cast<int>(static_cast<std::int64_t>(partitions) * (thread + 1) / threads);
      for (int p = begin; p < end; ++p) write_partition(send.buffer, bytes, p, round, 0, 1);
      chance_delay(seed, most_delay_ns);
      if (begin < end) failed(MPIX_Pready_range(begin, end - 1, send), verdict);
      break;
    }
  }
}

/// Bytes first, first + step, … below `last` of a receive buffer, by plain loads, as a program's.
__device__ inline void compare(const unsigned char* buffer, std::int64_t first, std::int64_t last, std::int64_t step,
                               std::uint64_t round, Verdict* verdict) {
  unsigned long long wrong = 0;
  for (std::int64_t i = first; i < last; i += step) wrong += buffer[i] != byte_at(round, i);
  if (wrong != 0) atomicAdd_system(&verdict->wrong_bytes, wrong);
}

/// One thread asks for partition `p` up to `limit_ns`; true once it has arrived.
__device__ inline bool poll(const MPIX_Prequest& recv, int p, std::uint64_t limit_ns, Verdict* verdict) {
  const std::uint64_t since = device::now_ns();
  int arrived = 0;
  while (arrived == 0 && device::now_ns() - since < limit_ns) {
    if (failed(MPIX_Parrived(recv, p, &arrived), verdict)) return false;
  }
  if (arrived == 0) atomicAdd_system(&verdict->never_arrived, 1);
  return arrived != 0;
}

}  // namespace partita::test
