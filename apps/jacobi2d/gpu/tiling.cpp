#include <algorithm>

#include "apps/jacobi2d/gpu/sweep.hpp"

namespace jacobi2d::gpu {
namespace {

/// Rows of a tile: enough that its first and last rows, which are read twice, matter little.
constexpr int most_tile_rows = 16;

int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

Tiling with_rows(const Shape& shape, int tile_rows) {
  Tiling tiling{};
  for (const int partitions : shape.partitions) tiling.pieces += partitions;
  tiling.tile_rows = std::clamp(tile_rows, 1, most_tile_rows);
  tiling.tiles_across = divide_up(shape.columns, block_threads);
  tiling.tiles = tiling.tiles_across * divide_up(std::max(shape.rows - 2, 0), tiling.tile_rows);
  return tiling;
}

/// Rows of 256 columns that all tiles together have.
int strips_of(const Shape& shape) {
  return std::max(shape.rows - 2, 1) * divide_up(shape.columns, block_threads);
}

}  // namespace

Tiling tile_for_launches(const Shape& shape, int multiprocessors) {
  constexpr int blocks_each = 5;
  Tiling tiling = with_rows(shape, divide_up(strips_of(shape), blocks_each * multiprocessors));
  tiling.crowded = tiling.pieces + tiling.tiles > few_blocks_each * multiprocessors;
  return tiling;
}

Tiling tile_for_residents(const Shape& shape, int blocks, int multiprocessors) {
  const int pieces = with_rows(shape, 1).pieces;
  // Where a block has one tile at most, those with a piece of the edge have none.
  const int free_blocks = std::max(blocks - pieces, 1);
  const int strips = strips_of(shape);
  const bool one_each = strips <= free_blocks * most_tile_rows;
  const int rounds = divide_up(strips, blocks * most_tile_rows);
  Tiling tiling = with_rows(shape, divide_up(strips, one_each ? free_blocks : blocks * rounds));
  tiling.crowded = blocks > few_blocks_each * multiprocessors;
  return tiling;
}

}  // namespace jacobi2d::gpu
