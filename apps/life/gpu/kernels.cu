#include "apps/life/gpu/kernels.hpp"

#include "apps/support/cuda_check.hpp"

namespace life::gpu {
namespace {

constexpr int block_columns = 128;
constexpr int rows_a_thread = 8;

__device__ Cell three(const Cell* cell) {
  return cell[-1] + cell[0] + cell[1];
}

/// A thread walks down a column with the sums of three rows in hand.
__global__ void __launch_bounds__(block_columns) next_generation(Field from, Field to) {
  const int column = 1 + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int first = 1 + static_cast<int>(blockIdx.y) * rows_a_thread;
  if (column > from.columns) return;
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

}  // namespace

void launch_next(const Field& from, const Field& to, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((from.columns + block_columns - 1) / block_columns),
                  static_cast<unsigned>((from.rows + rows_a_thread - 1) / rows_a_thread));
  next_generation<<<grid, block_columns, 0, stream>>>(from, to);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void load_kernel() {
  cudaFuncAttributes attributes;
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(next_generation)));
}

}  // namespace life::gpu
