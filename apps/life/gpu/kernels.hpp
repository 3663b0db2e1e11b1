// The kernel that plays. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "apps/life/cell.hpp"

namespace life::gpu {

/// Whose cells live at the start, and where those of a field lie on the whole board.
struct FirstGeneration {
  std::uint64_t seed;
  int density;  ///< of a hundred
  int first_row, first_column;
};

/// Puts a kernel into `stream` that fills the cells of `field`, in GPU memory, with the first generation.
void launch_fill(const Field& field, const FirstGeneration& first, cudaStream_t stream);
/// Puts a kernel into `stream` that writes the generation after `from`, in GPU memory with its frame filled, to the
/// cells of `to`.
void launch_next(const Field& from, const Field& to, cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load_kernels();

}  // namespace life::gpu
