// Collectives that a running kernel does, one after another.
#pragma once

#include <cuda_runtime_api.h>

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

/// How many blocks of so many threads run at once on this GPU.
int most_collective_blocks(Collective kind, int threads);

}  // namespace partita::bench::gpu
