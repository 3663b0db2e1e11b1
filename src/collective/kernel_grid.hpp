// The grid that does a collective in kernels in the shortest time: of the library's launches, and of the
// benchmark, whose kernels call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "partita/device/impl/areas.hpp"

namespace partita::collective {

struct KernelGrid {
  int blocks;
  int threads;  ///< of a block
};

/// One block moves up to so many bytes for all other ranks together. Several wait for each other twice in a call, so
/// they are for more than that. `partita bench collective.in-kernel --blocks` measures other grids.
inline constexpr std::int64_t most_bytes_of_one_block = 24 * 1024;
/// With so few, several collectives have room on a GPU side by side.
inline constexpr int most_kernel_blocks = 64;

/// How a block of the data is divided among threads.
struct Division {
  std::int64_t units;
  std::int64_t strips;  ///< of one block of threads each
};
constexpr Division division_of(std::int64_t block_bytes) {
  constexpr auto unit_bytes = static_cast<std::int64_t>(device::area_unit_bytes);
  constexpr auto strip_units = static_cast<std::int64_t>(device::most_share_units);
  const std::int64_t units = (block_bytes + unit_bytes - 1) / unit_bytes;
  return {units, (units + strip_units - 1) / strip_units};
}

/// So many blocks, of which each has a thread for each of so many units, up to `most_threads`.
constexpr KernelGrid kernel_grid_of(std::int64_t blocks, std::int64_t units, int most_threads) {
  constexpr std::int64_t warp_threads = 32;
  const std::int64_t threads = (units + warp_threads - 1) / warp_threads * warp_threads;
  return {static_cast<int>(std::clamp<std::int64_t>(blocks, 1, most_kernel_blocks)),
          static_cast<int>(std::clamp<std::int64_t>(threads, warp_threads, most_threads))};
}

/// The grid of a call in a kernel. Ranks need not have the same one. `block_bytes`: of the data, as in the device
/// request. One block has a thread for each unit, up to `most_threads`; of several each has a strip of the data, as far
/// as that goes, and a thread for each unit of it.
constexpr KernelGrid kernel_grid_for(std::int64_t block_bytes, int ranks, int most_threads) {
  const Division data = division_of(block_bytes);
  const std::int64_t others = std::max(ranks - 1, 1);
  if (block_bytes <= most_bytes_of_one_block / others) return kernel_grid_of(1, data.units, most_threads);
  return kernel_grid_of(data.strips, device::most_share_units, most_threads);
}

/// The grid of a launch that does nothing else, whose blocks do not wait for each other: one a strip. `cut_bytes`: of
/// what is cut into strips (device::cut_bytes).
constexpr KernelGrid launched_grid_for(std::int64_t cut_bytes, int most_threads) {
  const Division data = division_of(cut_bytes);
  return kernel_grid_of(data.strips, std::min<std::int64_t>(data.units, device::most_share_units), most_threads);
}

}  // namespace partita::collective
