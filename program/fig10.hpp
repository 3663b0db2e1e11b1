// partitioned.fig10: the data-parallel step of the app bce (gpu-initiated-partitioned-mpi, figure 10).
#pragma once

#include "bench/measurement.hpp"

namespace partita::program {

bench::Benchmark fig10_benchmark();

}  // namespace partita::program
