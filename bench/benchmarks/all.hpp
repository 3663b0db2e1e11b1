// One function a benchmark, defined in the file of its name; the table is in bench/benchmarks.cpp.
#pragma once

#include "bench/measurement.hpp"

namespace partita::bench {

Benchmark latency_benchmark();
Benchmark bw_benchmark();
Benchmark overhead_benchmark();
Benchmark perceived_bandwidth_benchmark();
Benchmark availability_benchmark();
Benchmark early_bird_benchmark();
Benchmark late_neighbours_benchmark();
Benchmark first_contact_benchmark();
Benchmark foreign_benchmark();
Benchmark start_pready_wait_benchmark();
Benchmark progress_benchmark();
/// two-sided, and channel.fig11 to .fig14.
std::vector<Benchmark> two_sided_benchmarks();
/// One for each of some collectives.
std::vector<Benchmark> collective_benchmarks();

}  // namespace partita::bench
