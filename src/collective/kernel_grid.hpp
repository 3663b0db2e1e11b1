// The grid that does a collective in kernels in the shortest time: of the library's launches, and of the benchmark.
#pragma once

#include <algorithm>
#include <cstdint>

#include "partita/device/impl/areas.hpp"

namespace partita::collective {

struct KernelGrid {
  int blocks;
  int threads;  ///< of a block
};

/// One block moves so many bytes for all other ranks together before several take less time, which wait for each other
/// twice in a call. Measured on an H100 that ranks share: of 2 ranks one block of 512 threads takes 3.4 µs for 16 KiB,
/// where four take 4.0, and 5.8 µs for 32 KiB, where eight take 4.2; of 4 ranks 3.8 µs for 8 KiB, where two take 4.9,
/// and 6.8 µs for 16 KiB, where four take 5.0.
inline constexpr std::int64_t most_bytes_of_one_block = 24 * 1024;
/// With so few, several collectives have room on a GPU side by side.
inline constexpr int most_kernel_blocks = 64;

/// Ranks need not have the same grid. `block_bytes`: of the data, as in the device request. One block has a thread for
/// each unit, up to `most_threads`; of several each has a strip of the data, as far as that goes, and a thread for each
/// unit of it.
constexpr KernelGrid kernel_grid_for(std::int64_t block_bytes, int ranks, int most_threads) {
  constexpr std::int64_t warp_threads = 32;
  constexpr auto unit_bytes = static_cast<std::int64_t>(device::area_unit_bytes);
  constexpr auto strip_units = static_cast<std::int64_t>(device::most_share_units);
  const std::int64_t units = (block_bytes + unit_bytes - 1) / unit_bytes;
  const std::int64_t strips = (units + strip_units - 1) / strip_units;
  const std::int64_t others = std::max(ranks - 1, 1);
  const bool is_one = strips <= 1 || block_bytes <= most_bytes_of_one_block / others;
  const std::int64_t units_of_one = is_one ? units : strip_units;
  const std::int64_t threads = (units_of_one + warp_threads - 1) / warp_threads * warp_threads;
  return {is_one ? 1 : static_cast<int>(std::min<std::int64_t>(strips, most_kernel_blocks)),
          static_cast<int>(std::clamp<std::int64_t>(threads, warp_threads, most_threads))};
}

}  // namespace partita::collective
