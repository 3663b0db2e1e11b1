// `partita bench`.
#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace partita::bench {

/// Runs `partita bench NAME [options]`; argv[0] is "bench". `more`: what can be named beside benchmarks(). Starts MPI,
/// with MPI_THREAD_MULTIPLE, and ends it where the caller has not. Returns the exit status: 0, 1 for wrong data or what
/// cannot be measured here, 2 for wrong options. Without a name it lists the benchmarks.
int command(int argc, char** argv, const std::vector<Benchmark>& more = {});

}  // namespace partita::bench
