// The kernels of an iteration. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>

#include "apps/cg/vectors.hpp"

namespace cg::gpu {

/// What the blocks of a kernel leave to its last one, in GPU memory; zeroed.
struct Scratch {
  static constexpr unsigned most_blocks = 1024;
  double sums[most_blocks];
  unsigned ended;  ///< blocks of the kernel that runs
};

/// What kernels work on: `vectors` in GPU memory, whose `right_hand_side` has a number for each point.
struct Model {
  Vectors vectors;
  const double* right_hand_side = nullptr;
  Scratch* scratch = nullptr;
};

/// Each puts one kernel into `stream`, and does what Work's member of the name says. A sum has the same bits each time.
void launch_start(const Model& model, cudaStream_t stream);
void launch_apply(const Model& model, cudaStream_t stream);
void launch_advance(const Model& model, cudaStream_t stream);
void launch_turn(const Model& model, cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load_kernels();

}  // namespace cg::gpu
