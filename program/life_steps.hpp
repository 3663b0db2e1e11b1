// queue.fig6 and queue.fig8: the Game of Life on GPUs as a benchmark (cpu-free-stream-triggered-mpi, figures 6 and 8).
// They stand here because they are made of an app and of the harness.
#pragma once

#include "bench/measurement.hpp"

namespace partita::program {

/// One board on however many ranks; cases are the bytes of the whole board.
bench::Benchmark queue_fig6_benchmark();
/// Each rank has a square block; cases are the bytes of its edge.
bench::Benchmark queue_fig8_benchmark();

}  // namespace partita::program
