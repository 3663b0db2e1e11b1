// The kernels that copy cells between a stage and the blocks. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>

#include "apps/fft/packing.hpp"

namespace fft::gpu {

/// As pack and unpack of packing.hpp, in GPU memory, by kernels that are put into `stream`. A piece without cells
/// launches none.
void launch_pack(const Piece& piece, const double2* stage, double2* buffer, cudaStream_t stream);
void launch_unpack(const Piece& piece, const double2* buffer, double2* stage, double scale, cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load_kernels();

}  // namespace fft::gpu
