// A kernel that copies between the memory of its GPU and page-locked memory of the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace partita::bench::gpu {

/// Launches it. Both addresses are the GPU's, and multiples of 16.
void launch_mapped_copy(std::byte* to, const std::byte* from, std::int64_t size_bytes, cudaStream_t stream);

}  // namespace partita::bench::gpu
