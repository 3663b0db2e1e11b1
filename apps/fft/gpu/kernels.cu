#include <algorithm>

#include "apps/fft/gpu/kernels.hpp"
#include "apps/support/cuda_check.hpp"

namespace fft::gpu {
namespace {

constexpr int block_threads = 256;
constexpr int tile = 32, tile_rows = block_threads / tile;
constexpr std::int64_t most_blocks = 65535;  // along y and z of a grid

/// The lines of the piece, one a row of blocks: runs of cells on both sides.
__global__ void __launch_bounds__(block_threads)
    pack_lines(const __grid_constant__ Piece piece, const double2* stage, double2* buffer) {
  const std::int64_t cell = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (cell >= piece.extent[2]) return;
  const std::int64_t lines = piece.extent[0] * piece.extent[1];
  for (std::int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
    const std::int64_t plane = line / piece.extent[1];
    const std::int64_t from = plane * piece.stride[0] + (line - plane * piece.extent[1]) * piece.stride[1];
    buffer[piece.in_buffer + line * piece.extent[2] + cell] = stage[piece.in_stage + from + cell];
  }
}

/// A tile of the axis that is fastest in the buffer and of that which is fastest in the stage, by way of shared memory,
/// so that either side is read and written along its fastest axis. `across`: the latter, among the piece's axes.
template <int across>
__global__ void __launch_bounds__(block_threads)
    unpack_tiles(const __grid_constant__ Piece piece, const double2* buffer, double2* stage, double scale) {
  constexpr int along = 1 - across;
  __shared__ double2 cells[tile][tile + 1];
  const std::int64_t plane_cells = piece.extent[1] * piece.extent[2];
  const std::int64_t from_across = across == 0 ? plane_cells : piece.extent[2];
  const std::int64_t from_along = along == 0 ? plane_cells : piece.extent[2];
  const std::int64_t first_cell = std::int64_t{blockIdx.x} * tile;
  for (std::int64_t k = blockIdx.z; k < piece.extent[along]; k += gridDim.z) {
    for (std::int64_t first = std::int64_t{blockIdx.y} * tile; first < piece.extent[across];
         first += std::int64_t{gridDim.y} * tile) {
      const double2* const from = buffer + piece.in_buffer + k * from_along;
      for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows) {
        const std::int64_t i = first + row, j = first_cell + threadIdx.x;
        if (i < piece.extent[across] && j < piece.extent[2]) cells[row][threadIdx.x] = from[i * from_across + j];
      }
      __syncthreads();
      double2* const to = stage + piece.in_stage + k * piece.stride[along];
      for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows) {
        const std::int64_t i = first + threadIdx.x, j = first_cell + row;
        if (i < piece.extent[across] && j < piece.extent[2]) {
          const double2 cell = cells[threadIdx.x][row];
          to[i * piece.stride[across] + j * piece.stride[2]] = {scale * cell.x, scale * cell.y};
        }
      }
      __syncthreads();
    }
  }
}

unsigned blocks_for(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

unsigned blocks_within_limit(std::int64_t count) {
  return static_cast<unsigned>(std::min(count, most_blocks));
}

}  // namespace

void launch_pack(const Piece& piece, const double2* stage, double2* buffer, cudaStream_t stream) {
  if (piece.cells() == 0) return;
  const dim3 grid(blocks_for(piece.extent[2], block_threads), blocks_within_limit(piece.extent[0] * piece.extent[1]));
  pack_lines<<<grid, block_threads, 0, stream>>>(piece, stage, buffer);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void launch_unpack(const Piece& piece, const double2* buffer, double2* stage, double scale, cudaStream_t stream) {
  if (piece.cells() == 0) return;
  const std::size_t across = piece.stride[0] == 1 ? 0 : 1;
  const dim3 grid(blocks_for(piece.extent[2], tile), blocks_within_limit(blocks_for(piece.extent[across], tile)),
                  blocks_within_limit(piece.extent[1 - across]));
  const dim3 block(tile, tile_rows);
  if (across == 0) {
    unpack_tiles<0><<<grid, block, 0, stream>>>(piece, buffer, stage, scale);
  } else {
    unpack_tiles<1><<<grid, block, 0, stream>>>(piece, buffer, stage, scale);
  }
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void load_kernels() {
  cudaFuncAttributes attributes{};
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, pack_lines));
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, unpack_tiles<0>));
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, unpack_tiles<1>));
}

}  // namespace fft::gpu
