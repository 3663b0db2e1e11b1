// One iteration on one GPU: what its kernel gets, and the launch. For nvcc and for the host's compiler.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/device/prequest.h>

#include <cstddef>
#include <cstdint>

namespace jacobi2d::gpu {

inline constexpr int block_threads = 256;
/// The order of jacobi2d::Side, as numbers that a kernel counts with.
inline constexpr int north = 0, south = 1, west = 2, east = 3, sides = 4;

/// What a block of cells is and where it lies. The field has the layout of jacobi2d::Field, of which the kernels leave
/// the halo alone: the neighbours' cells lie in buffers of their own, one run a side.
struct Shape {
  int rows, columns;
  std::ptrdiff_t stride;
  int partitions[sides];  ///< of the run along a side; without a neighbour, the pieces into which its cells are cut
  bool neighbour[sides];
};

/// Where one iteration reads and writes.
struct Sweep {
  const double* from;          ///< cell (0, 0) of the field that is read, which is in its halo
  double* to;                  ///< of the field that is written
  const double* halo[sides];   ///< read: what the neighbours have sent, or the rim
  double* edge[sides];         ///< written: what the neighbours wait for
  unsigned long long* change;  ///< grows to the bits of the largest |new - old|; null: not measured
};

/// How the cells are shared among thread blocks: pieces of the edge come first, so that what neighbours wait for is
/// computed first; then tiles of the interior, `block_threads` columns × `tile_rows` rows.
struct Tiling {
  int pieces;
  int tile_rows, tiles_across;
  int tiles;
  bool crowded;  ///< more blocks than few_blocks_each on a multiprocessor
};

/// So many blocks on a multiprocessor leave the calls of the device API all the registers that they want; more of them
/// keep the memory busy.
inline constexpr int few_blocks_each = 2;

/// For a kernel that is launched for each iteration on a GPU of `multiprocessors`.
Tiling tile_for_launches(const Shape& shape, int multiprocessors);
/// For `blocks` thread blocks that stay on such a GPU.
Tiling tile_for_residents(const Shape& shape, int blocks, int multiprocessors);

/// The pieces of the edge alone, and the tiles of the interior alone: launched side by side they are one iteration.
inline Tiling edges_of(Tiling tiling) {
  tiling.tiles = 0;
  return tiling;
}
inline Tiling interior_of(Tiling tiling) {
  tiling.pieces = 0;
  return tiling;
}

/// The device requests of one iteration; unused where there is no neighbour.
struct HaloRequests {
  MPIX_Prequest send[sides];  ///< marked as their partitions are computed
  MPIX_Prequest recv[sides];  ///< awaited before the halo is read, if `await`
  bool await;
  std::uint64_t limit_ns;        ///< of the wait
  unsigned int* awaited_vainly;  ///< becomes 1 when a wait passes it
};

/// Starts one iteration, or the part of it that `tiling` has, on `stream`; does not wait.
void launch_sweep(const Shape& shape, const Tiling& tiling, const Sweep& sweep, cudaStream_t stream);
/// The same, with the kernel marking what the neighbours wait for as soon as it is there.
void launch_marking_sweep(const Shape& shape, const Tiling& tiling, const Sweep& sweep, const HaloRequests& requests,
                          cudaStream_t stream);

/// Loads these kernels on the current device, which must not happen while a kernel waits there for a peer.
void load_sweeps();

}  // namespace jacobi2d::gpu
