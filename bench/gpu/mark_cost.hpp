// What the calls that mark cost the threads of one block.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

enum class Granularity : std::uint8_t { thread, warp, block, automatic };

/// One block of `threads` marks all partitions of `send` by one call of each thread; reports the time from before the
/// first thread's call to after the last one's.
void launch_marking(const MPIX_Prequest& send, Granularity granularity, int threads, KernelReport* report,
                    cudaStream_t stream);

}  // namespace partita::bench::gpu
