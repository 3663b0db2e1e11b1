// partitioned.fig8: jacobi2d on GPUs as a benchmark. It stands here because it is made of an app and of the harness.
#pragma once

#include "bench/measurement.hpp"

namespace partita::program {

bench::Benchmark fig8_benchmark();

}  // namespace partita::program
