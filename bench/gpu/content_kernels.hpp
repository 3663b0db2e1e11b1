// The kernels behind contents.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace partita::bench::gpu {

struct ContentShape {
  std::uint64_t words;       ///< of 8 bytes
  std::uint64_t part_bytes;  ///< of each partition
  std::uint64_t epoch_hash;  ///< mix(epoch)
};

inline constexpr std::uint64_t no_mismatch = ~std::uint64_t{0};

/// Fills `data` with the contents, all bits of `flip` turned over.
void launch_fill(std::uint64_t* data, const ContentShape& shape, std::uint64_t flip, cudaStream_t stream);
/// Fills `a` and `b` so that a[i] + b[i] are the contents.
void launch_fill_addends(std::uint64_t* a, std::uint64_t* b, const ContentShape& shape, cudaStream_t stream);
/// Lowers `*first` to the index of the first word that is wrong.
void launch_find(const std::uint64_t* data, const ContentShape& shape, std::uint64_t* first, cudaStream_t stream);

}  // namespace partita::bench::gpu
