// Whole epochs that the blocks of one running kernel put.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

struct GridShape {
  int blocks;
  int threads;
};

/// By which calls block 0 ends an epoch and opens the next one.
enum class Turn : std::uint8_t { wait_start_prepare, next };

/// Whether all blocks of the sending kernels run at once on this GPU.
bool fits_on_gpu(const GridShape& shape);

/// `epochs` device-driven epochs of a send with one partition a block. Reports the time from the moment all may mark to
/// the end of MPIX_Pwait, summed over the epochs, unless they turn by MPIX_Pnext, and that of everything, opening the
/// epochs included.
void launch_putting(const MPIX_Prequest& send, const GridShape& shape, Turn turn, int epochs, KernelReport* report,
                    cudaStream_t stream);

/// The other side: opens and awaits `epochs` epochs.
void launch_receiving(const MPIX_Prequest& recv, int epochs, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
