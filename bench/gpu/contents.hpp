// The contents of bench/contents.hpp made and compared on the GPU, so that large buffers need no host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/contents.hpp"

namespace partita::bench::gpu {

/// `size_bytes` in GPU memory, a multiple of 8, of `partitions` equal parts.
struct Region {
  std::byte* data;
  std::size_t size_bytes;
  std::int64_t partitions;
};

/// Fills `region` with what `epoch` sends. Blocks until it is done, as all of these.
void fill(const Region& region, std::uint64_t epoch, cudaStream_t stream);

/// Fills it with what `epoch` must not leave there: every byte differs from the expected one.
void poison(const Region& region, std::uint64_t epoch, cudaStream_t stream);

/// Fills `a` and `b`, as large as `sum` each, so that their 8-byte words add up to what `epoch` sends in `sum`.
void fill_addends(std::byte* a, std::byte* b, const Region& sum, std::uint64_t epoch, cudaStream_t stream);

/// The first byte of `region` that is not what `epoch` sends.
std::optional<Mismatch> find_mismatch(const Region& region, std::uint64_t epoch, cudaStream_t stream);

/// find_mismatch, and prints what differs; `rank` and `subject` are for the sentence. True where nothing does.
bool compare(const Region& region, std::uint64_t epoch, cudaStream_t stream, int rank, const char* subject);

}  // namespace partita::bench::gpu
