// Kernels of the tests that fill and mark a send buffer, at every granularity.
#pragma once

#include "gpu_pair.cuh"

namespace partita::test {

enum class Granularity { thread, aggregated, divergent, warp, block, range };
inline constexpr Granularity granularities[] = {Granularity::thread, Granularity::aggregated, Granularity::divergent,
                                                Granularity::warp,   Granularity::block,      Granularity::range};
inline const char* name_of(Granularity granularity) {
  static constexpr const char* names[] = {"thread", "aggregated", "divergent", "warp", "block", "range"};
  return names[static_cast<int>(granularity)];
}

struct Work {
  Granularity granularity;
  Epoch before;
  int epochs;
  std::uint32_t most_delay_ns;
  std::uint32_t* grid_word;
  Findings* findings;
};

/// Threads first, first + step, … of a partition's bytes.
__device__ inline void fill(const Partita_Prequest& send, int p, unsigned first, unsigned step, Epoch epoch,
                            Findings* findings) {
  const std::int64_t bytes = send.total_bytes / send.send_partitions;
  unsigned char* to = send.buffer + p * bytes;
  if ((send.flags & PARTITA_PREQUEST_IN_PLACE) != 0) {
    to = static_cast<unsigned char*>(MPIX_Pbuffer(p, send));
    if (to == nullptr) {
      failed(PARTITA_DEVICE_ERR_UNPREPARED, findings);
      return;
    }
  }
  for (std::int64_t i = first; i < bytes; i += step) to[i] = expected_byte(epoch, p * bytes + i);
}

/// Fills and marks this block's share of the partitions; all threads of all blocks call.
__device__ inline void mark_share(const Partita_Prequest& send, const Work& work, Epoch epoch) {
  const int partitions = send.send_partitions;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  Findings* const findings = work.findings;
  switch (work.granularity) {
    case Granularity::block:
      for (int p = blockIdx.x; p < partitions; p += gridDim.x) {
        fill(send, p, threadIdx.x, blockDim.x, epoch, findings);
        random_delay(epoch * 977 + thread, work.most_delay_ns);
        failed(MPIX_Pready_block(p, send), findings);
      }
      break;
    case Granularity::warp:
      for (int p = thread / 32; p < partitions; p += threads / 32) {
        fill(send, p, threadIdx.x % 32, 32, epoch, findings);
        random_delay(epoch * 977 + thread, work.most_delay_ns);
        failed(MPIX_Pready_warp(p, send), findings);
      }
      break;
    case Granularity::range: {
      const int begin = static_cast<int>(std::int64_t{partitions} * thread / threads);
      const int end = static_cast<int>(std::int64_t{partitions} * (thread + 1) / threads);
      for (int p = begin; p < end; ++p) fill(send, p, 0, 1, epoch, findings);
      random_delay(epoch * 977 + thread, work.most_delay_ns);
      if (begin < end) failed(MPIX_Pready_range(begin, end - 1, send), findings);
      break;
    }
    default:
      for (int p = thread; p < partitions; p += threads) {
        // Another thread's partition each epoch, so that neighbours are not always neighbours.
        const int mine =
            work.granularity == Granularity::divergent ? (p * 7 + static_cast<int>(epoch % 5)) % partitions : p;
        fill(send, mine, 0, 1, epoch, findings);
        random_delay(epoch * 977 + thread, work.most_delay_ns);
        if (work.granularity == Granularity::thread) {
          failed(MPIX_Pready_thread(mine, send), findings);
        } else if (work.granularity == Granularity::aggregated) {
          failed(MPIX_Pready(mine, send), findings);
        } else if (mine % 3 == 0) {
          failed(MPIX_Pready(mine, send), findings);
        } else {
          random_delay(epoch + thread, 300);
          failed(MPIX_Pready(mine, send), findings);
        }
      }
      break;
  }
}

/// A host-driven send: one epoch a launch.
static __global__ void __launch_bounds__(1024) send_one_epoch(MPIX_Prequest send, Work work, Epoch epoch) {
  mark_share(send, work, epoch);
}

}  // namespace partita::test
