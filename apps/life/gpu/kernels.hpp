// The kernel that plays. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>

#include "apps/life/cell.hpp"

namespace life::gpu {

/// Puts a kernel into `stream` that writes the generation after `from`, in GPU memory with its frame filled, to the
/// cells of `to`.
void launch_next(const Field& from, const Field& to, cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load_kernel();

}  // namespace life::gpu
