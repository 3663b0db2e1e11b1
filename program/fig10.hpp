// partitioned.fig10 and .fig11: the data-parallel step of the app bce (gpu-initiated-partitioned-mpi, figures 10 and
// 11).
#pragma once

#include "bench/measurement.hpp"

namespace partita::program {

bench::Benchmark fig10_benchmark();
bench::Benchmark fig11_benchmark();

}  // namespace partita::program
