// One function a GPU benchmark, defined in the file of its name.
#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace partita::bench::gpu {

Benchmark latency_benchmark();
Benchmark bandwidth_benchmark();
Benchmark fig2_benchmark();
Benchmark fig3_benchmark();
Benchmark fig4_benchmark();
Benchmark fig5_benchmark();
Benchmark fig6_benchmark();
Benchmark fig7_benchmark();
Benchmark table1_benchmark();
Benchmark late_neighbours_benchmark();
Benchmark progress_benchmark();
Benchmark collectives_benchmark();
Benchmark queue_fig1_benchmark();
Benchmark queue_fig5_benchmark();
Benchmark queue_enqueue_benchmark();
Benchmark queue_pack_benchmark();
/// In host_copies.cpp.
Benchmark ipc_fig3_benchmark();
/// In alltoall_protocols.cpp.
Benchmark ipc_fig4_benchmark();
Benchmark ipc_fig5_benchmark();
/// By the lines of peer_collectives.inc, in peer_collectives.cpp.
std::vector<Benchmark> peer_collective_benchmarks();

}  // namespace partita::bench::gpu
