// NVSHMEM's put and signal from kernels beside Partita, loaded at run time.
#pragma once

#include <memory>

#include "bench/gpu/memory_copy.hpp"
#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// Half a ping-pong of put + signal in a kernel of one block, one thread where the message is small; null with
/// --nvshmem none.
std::unique_ptr<Measurement> nvshmem_ping_pong(Job& job, const Case& c, int threads);

/// Microseconds in which the blocks of a running kernel put a message, completed at the target; null with --nvshmem
/// none.
std::unique_ptr<Measurement> nvshmem_put(Job& job, const Case& c, const GridShape& grid);

}  // namespace partita::bench::gpu
