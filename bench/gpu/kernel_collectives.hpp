// Collectives that a running kernel does, one after another.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

enum class Collective { allreduce, allgather, reduce_scatter, alltoall, bcast };

/// The first collective of a launch is not timed: it shows all kernels that the others run.
inline constexpr int untimed_collectives = 1;

/// A block has no more.
inline constexpr int most_collective_threads = 512;

struct CollectiveRun {
  Collective kind;
  int collectives;  ///< the untimed one included
  int blocks;       ///< of several, all run at once
  int threads;
};

/// Device-driven: all blocks of the grid do collective after collective. Reports the time of the timed ones, and that
/// of everything.
void launch_collectives(const MPIX_Prequest& prequest, const CollectiveRun& run, KernelReport* report,
                        cudaStream_t stream);

/// The exchange of packets by which a kernel sums ints, and nothing else of an allreduce: neither an epoch, nor a word
/// of a request's, nor a barrier, and what comes from all ranks is polled together. A thread has one unit of 16 bytes.
struct BareRun {
  int exchanges;             ///< the untimed ones included
  std::uint32_t first_flag;  ///< one more than the last one of the launch before, at the beginning 1
};
inline constexpr std::int64_t most_bare_bytes = std::int64_t{most_collective_threads} * 16;

/// Between 2 to 8 ranks, through the areas of `prequest`, an allreduce of up to so many bytes in packets which does no
/// epoch itself.
void launch_bare_packets(const MPIX_Prequest& prequest, const BareRun& run, KernelReport* report, cudaStream_t stream);

/// How many blocks of so many threads run at once on this GPU.
int most_collective_blocks(Collective kind, int threads);

}  // namespace partita::bench::gpu
