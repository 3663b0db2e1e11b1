// The benchmarks of GPU requests, as far as this build has them. docs/design/measuring-gpu.md says what each measures.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/measurement.hpp"
#include "bench/two_sided.hpp"

namespace partita::bench::gpu {

struct Naming {
  std::string_view name;
  std::string_view what;
};

inline constexpr Naming latency_naming{"partitioned.latency",
                                       "Half a ping-pong between kernels: from ready to arrived, one way"};
inline constexpr Naming bandwidth_naming{"partitioned.bandwidth",
                                         "Bandwidth of one epoch that the blocks of a running kernel put"};
inline constexpr Naming fig2_naming{"partitioned.fig2", "Launching a vector addition and synchronising with it"};
inline constexpr Naming fig3_naming{"partitioned.fig3",
                                    "What MPIX_Pready costs the threads of one block, by granularity"};
inline constexpr Naming fig4_naming{"partitioned.fig4", "Goodput of C = A + B with C sent, between GPUs of one node"};
inline constexpr Naming fig5_naming{"partitioned.fig5",
                                    "The same over the path between nodes, forced on the ranks of one node"};
inline constexpr Naming fig6_naming{"partitioned.fig6",
                                    "Goodput of C = A + B with C summed over all ranks, between GPUs of one node"};
inline constexpr Naming fig7_naming{
    "partitioned.fig7",
    "The same on two nodes, an even number of ranks (8 in the paper): kernels in a node, the engine between the two"};
inline constexpr Naming table1_naming{"partitioned.table1",
                                      "What each call of a GPU request costs: mean and deviation"};

inline constexpr Naming late_neighbours_naming{
    "partitioned.late-neighbours",
    "Time from a kernel's mark of one partition to its arrival, the others being marked --compute-us later"};
inline constexpr Naming progress_naming{"partitioned.progress",
                                        "What a step of the progress engine costs, and a process that sleeps"};
inline constexpr Naming collectives_naming{"collective.in-kernel",
                                           "One of the collectives that a running kernel does one after another"};
inline constexpr Naming queue_fig1_naming{"queue.fig1",
                                          "Where the time of a packed message goes that a host sends: the parts of it"};
inline constexpr Naming queue_fig5_naming{"queue.fig5",
                                          "Half a ping-pong of packed messages: in queues, in graphs, and by hosts"};
inline constexpr Naming queue_enqueue_naming{"queue.enqueue",
                                             "What a call that enqueues costs the host, beside an empty kernel launch"};

inline constexpr Naming queue_pack_naming{
    "queue.pack", "Bandwidth of the kernels that pack and unpack rows of so many bytes, beside a copy's"};
inline constexpr Naming ipc_fig3_naming{"ipc.fig3",
                                        "Copies between a GPU and its host, by kind of host memory and of copy"};
inline constexpr Naming ipc_fig4_naming{"ipc.fig4", "MPI_Alltoall on GPU memory, by protocol"};
inline constexpr Naming ipc_fig5_naming{
    "ipc.fig5", "Where the time of MPI_Alltoall on GPU memory goes, by protocol: the parts of it"};
/// By the lines of peer_collectives.inc.
inline constexpr Naming peer_collective_namings[] = {
#define COLLECTIVE(BENCHMARK, NAME, ...) {BENCHMARK, "MPI_" #NAME " on GPU memory, by the drop-in"},
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
};

/// All of them; in a build without CUDA each says so.
const std::vector<Benchmark>& benchmarks();

/// Why this process cannot use a GPU; empty where it can.
std::string what_is_missing();

/// Memory of the GPU that set_up has chosen.
const StagingMemory& staging_memory();

/// Chooses this rank's GPU and bounds all waits of kernels: before the runtime starts. Collective over `comm`.
void set_up(MPI_Comm comm, const Options& options);

}  // namespace partita::bench::gpu
