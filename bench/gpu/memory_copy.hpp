// Whole epochs that the blocks of one running kernel put.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

struct GridShape {
  int blocks;
  int threads;
};

/// Whether all blocks of the sending kernel run at once on this GPU.
bool fits_on_gpu(const GridShape& shape);

/// `epochs` device-driven epochs of a send with one partition a block. Reports the time from the moment all may mark to
/// the end of MPIX_Pwait, summed over the epochs, and that of everything, opening the epochs included.
void launch_putting(const MPIX_Prequest& send, const GridShape& shape, int epochs, KernelReport* report,
                    cudaStream_t stream);

/// The other side: opens and awaits `epochs` epochs.
void launch_receiving(const MPIX_Prequest& recv, int epochs, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
