#include "apps/life/gpu/kernels.hpp"

#include <algorithm>

#include "apps/life/first_generation.hpp"
#include "apps/support/cuda_check.hpp"

namespace life::gpu {
namespace {

constexpr int block_columns = 128;
constexpr int rows_a_thread = 8;

__device__ Cell three(const Cell* cell) {
  return cell[-1] + cell[0] + cell[1];
}

/// A thread walks down a column, some rows at a time, with the sums of three rows in hand.
__global__ void __launch_bounds__(block_columns) next_generation(Field from, Field to) {
  const int column = 1 + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column > from.columns) return;
  const int step = static_cast<int>(gridDim.y) * rows_a_thread;
  for (int first = 1 + static_cast<int>(blockIdx.y) * rows_a_thread; first <= from.rows; first += step) {
    const int end = min(first + rows_a_thread, from.rows + 1);
    const Cell* cell = from.cells + static_cast<std::ptrdiff_t>(first) * from.stride + column;
    Cell* next = to.cells + static_cast<std::ptrdiff_t>(first) * to.stride + column;
    Cell above = three(cell - from.stride), here = three(cell);
    for (int row = first; row < end; ++row, cell += from.stride, next += to.stride) {
      const Cell below = three(cell + from.stride);
      const Cell neighbours = above + here + below - *cell;
      *next = (neighbours | *cell) == 3 ? 1 : 0;  // three, or two and itself
      above = here;
      here = below;
    }
  }
}

__global__ void __launch_bounds__(block_columns) fill(Field field, FirstGeneration first) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= field.columns) return;
  for (int row = static_cast<int>(blockIdx.y); row < field.rows; row += static_cast<int>(gridDim.y)) {
    const bool lives = lives_at_start(first.seed, first.density, first.first_row + row, first.first_column + column);
    field.cells[static_cast<std::ptrdiff_t>(row + 1) * field.stride + column + 1] = lives ? 1 : 0;
  }
}

unsigned blocks_of(int count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void launch_fill(const Field& field, const FirstGeneration& first, cudaStream_t stream) {
  constexpr int most_rows_at_once = 1024;
  const dim3 grid(blocks_of(field.columns, block_columns),
                  static_cast<unsigned>(std::min(field.rows, most_rows_at_once)));
  fill<<<grid, block_columns, 0, stream>>>(field, first);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void launch_next(const Field& from, const Field& to, cudaStream_t stream) {
  constexpr unsigned most_blocks = 65535;  // of a column
  const dim3 grid(blocks_of(from.columns, block_columns), std::min(blocks_of(from.rows, rows_a_thread), most_blocks));
  next_generation<<<grid, block_columns, 0, stream>>>(from, to);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void load_kernels() {
  cudaFuncAttributes attributes;
  for (const void* kernel : {reinterpret_cast<const void*>(fill), reinterpret_cast<const void*>(next_generation)}) {
    PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  }
}

}  // namespace life::gpu
