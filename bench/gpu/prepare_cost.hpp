// What MPIX_Pstart, MPIX_Pbuf_prepare and MPIX_Pwait cost inside a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/ping_pong.hpp"

namespace partita::bench::gpu {

/// The receiver's kernel before: opens the first `lanes` of the receives. After: awaits them.
void launch_opening(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream);
void launch_closing(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream);

/// The calls of the sender that are timed, each for all lanes in a row.
enum class KernelCall : std::uint8_t { start, prepare, wait };

/// The sender's kernel: opens, prepares, marks and completes each; reports the time of all of `timed` together.
void launch_preparing(const Lanes& lanes, int count, int threads, KernelCall timed, KernelReport* report,
                      cudaStream_t stream);

}  // namespace partita::bench::gpu
