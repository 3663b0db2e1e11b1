// The Jacobi step on the cells of one GPU, by the threads of one block. The arithmetic is that of stencil.cpp, addition
// by addition, so the bits are the same; this file's users are compiled without contraction.
#pragma once

#include "apps/jacobi2d/gpu/sweep.hpp"

namespace jacobi2d::gpu {

/// A run of cells along one side, counted from 1, both ends included; it is one partition.
struct Piece {
  int side, partition, first, last;
};

__device__ inline bool is_row(int side) {
  return side < west;
}

__device__ inline Piece piece_at(const Shape& shape, int index) {
  int side = 0;
  while (index >= shape.partitions[side]) index -= shape.partitions[side++];
  const long long length = is_row(side) ? shape.columns : shape.rows;
  const int pieces = shape.partitions[side];
  return {side, index, static_cast<int>(length * index / pieces) + 1, static_cast<int>(length * (index + 1) / pieces)};
}

__device__ inline double mean_of(double above, double below, double left, double right) {
  return 0.25 * ((above + below) + (left + right));
}

/// The largest `change` of all threads goes to `*result`. The bits of doubles that are not negative are in their order.
__device__ inline void take_largest(double change, unsigned long long* result) {
  for (int lanes = 16; lanes > 0; lanes /= 2) change = fmax(change, __shfl_xor_sync(0xffffffffu, change, lanes));
  if (threadIdx.x % 32 == 0 && change > 0.0) {
    atomicMax(result, static_cast<unsigned long long>(__double_as_longlong(change)));
  }
}

/// Who writes a corner cell into the field: every piece over it computes it, but a piece that nobody waits for leaves
/// it to one that is sent, so that nothing reads a neighbour's cells but pieces that are marked afterwards.
__device__ inline bool owns_corner(const Shape& shape, int side, int across) {
  const bool sent = shape.neighbour[side], other_sent = shape.neighbour[across];
  return is_row(side) ? sent || !other_sent : !sent ? false : !other_sent;
}

/// Whether a cell of `side` lies on another side too, and which.
__device__ inline int side_across(const Shape& shape, int side, int row, int column) {
  if (is_row(side)) return column == 1 ? west : column == shape.columns ? east : -1;
  return row == 1 ? north : row == shape.rows ? south : -1;
}

/// Computes the cells of a piece, into the field and into what the neighbour waits for. All threads of the block; no
/// barrier.
template <bool measure>
__device__ double relax_piece(const Shape& shape, const Sweep& sweep, const Piece& piece) {
  double change = 0.0;
  double* const edge = sweep.edge[piece.side];
  const bool sent = shape.neighbour[piece.side];
  for (int along = piece.first + static_cast<int>(threadIdx.x); along <= piece.last; along += block_threads) {
    const int row = piece.side == north ? 1 : piece.side == south ? shape.rows : along;
    const int column = piece.side == west ? 1 : piece.side == east ? shape.columns : along;
    const int across = side_across(shape, piece.side, row, column);
    const bool own = across < 0 || owns_corner(shape, piece.side, across);
    if (!sent && !own) continue;

    const std::ptrdiff_t at = row * shape.stride + column;
    const double above = row == 1 ? sweep.halo[north][column - 1] : sweep.from[at - shape.stride];
    const double below = row == shape.rows ? sweep.halo[south][column - 1] : sweep.from[at + shape.stride];
    const double left = column == 1 ? sweep.halo[west][row - 1] : sweep.from[at - 1];
    const double right = column == shape.columns ? sweep.halo[east][row - 1] : sweep.from[at + 1];
    const double mean = mean_of(above, below, left, right);
    if (sent) edge[along - 1] = mean;
    if (own) sweep.to[at] = mean;
    if (measure) change = fmax(change, fabs(mean - sweep.from[at]));
  }
  return change;
}

/// `depth` rows of one column from `here` on; their loads are on their way together.
template <int depth, bool measure>
__device__ inline void relax_rows(const double*& here, double*& to, std::ptrdiff_t stride, double& above,
                                  double& centre, double& change) {
  double below[depth], left[depth], right[depth];
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    below[i] = here[(i + 1) * stride];
    left[i] = here[i * stride - 1];
    right[i] = here[i * stride + 1];
  }
#pragma unroll
  for (int i = 0; i < depth; ++i) {
    const double mean = mean_of(above, below[i], left[i], right[i]);
    to[i * stride] = mean;
    if (measure) change = fmax(change, fabs(mean - centre));
    above = centre;
    centre = below[i];
  }
  here += depth * stride;
  to += depth * stride;
}

/// Computes tile `index` of the interior, a thread for each column. Columns are counted with the halo's, so that a
/// warp's cells begin at a boundary of 256 bytes. All threads of the block; no barrier.
template <bool measure>
__device__ double relax_tile(const Shape& shape, const Tiling& tiling, const Sweep& sweep, int index) {
  constexpr int depth = 4;
  const int column = index % tiling.tiles_across * block_threads + static_cast<int>(threadIdx.x);
  const int first = 2 + index / tiling.tiles_across * tiling.tile_rows;
  const int last = min(first + tiling.tile_rows, shape.rows) - 1;
  double change = 0.0;
  if (column < 2 || column >= shape.columns || first > last) return change;

  const std::ptrdiff_t at = first * shape.stride + column;
  const double* here = sweep.from + at;
  double* to = sweep.to + at;
  double above = here[-shape.stride], centre = here[0];
  int row = first;
  for (; row + depth - 1 <= last; row += depth) {
    relax_rows<depth, measure>(here, to, shape.stride, above, centre, change);
  }
  for (; row <= last; ++row) relax_rows<1, measure>(here, to, shape.stride, above, centre, change);
  return change;
}

}  // namespace jacobi2d::gpu
