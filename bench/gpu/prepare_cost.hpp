// What MPIX_Pbuf_prepare costs inside a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/ping_pong.hpp"

namespace partita::bench::gpu {

/// The receiver's kernel before: opens the first `lanes` of the receives. After: awaits them.
void launch_opening(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream);
void launch_closing(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream);

/// The sender's kernel: opens, prepares, marks and completes each; reports the time of all prepares together.
void launch_preparing(const Lanes& lanes, int count, int threads, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
