// The kernels around messages of queues.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace partita::bench::gpu {

/// Writes each byte of `from`, increased by `add` modulo 256, to `to`; both begin at a multiple of 16. Packs and
/// unpacks.
void launch_copy(const std::byte* from, std::byte* to, std::int64_t size_bytes, std::uint8_t add, cudaStream_t stream);

/// One thread, which does nothing.
void launch_nothing(cudaStream_t stream);

}  // namespace partita::bench::gpu
