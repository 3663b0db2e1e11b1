#include "apps/jacobi2d/gpu/sweep.hpp"

// Sweeps and marks of five blocks a multiprocessor.
#define PARTITA_DEVICE_FEW_REGISTERS
#include <partita/device.cuh>

#include "apps/jacobi2d/gpu/cells.cuh"
#include "apps/support/cuda_check.hpp"

namespace jacobi2d::gpu {
namespace {

__device__ unsigned long long now_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// Waits for one partition of a halo. One thread.
__device__ void await_partition(const HaloRequests& requests, int side, int partition) {
  const unsigned long long begin = now_ns();
  for (int arrived = 0; arrived == 0;) {
    if (MPIX_Parrived(requests.recv[side], partition, &arrived) != PARTITA_DEVICE_SUCCESS) return;
    if (arrived == 0 && now_ns() - begin > requests.limit_ns) {
      *requests.awaited_vainly = 1;
      return;
    }
  }
}

/// Waits for what the piece reads of the neighbours' cells: the partition along it and, at a corner of the block, the
/// one across. All threads of the block; a barrier.
__device__ void await_halo(const Shape& shape, const HaloRequests& requests, const Piece& piece) {
  const int lower = is_row(piece.side) ? west : north, upper = is_row(piece.side) ? east : south;
  const int length = is_row(piece.side) ? shape.columns : shape.rows;
  const bool at_far_end = piece.side == south || piece.side == east;
  // Each wait by a thread of a warp of its own, so that their looks go side by side.
  if (threadIdx.x == 0) {
    await_partition(requests, piece.side, piece.partition);
  } else if (threadIdx.x == 32 && piece.first == 1 && shape.neighbour[lower]) {
    await_partition(requests, lower, at_far_end ? shape.partitions[lower] - 1 : 0);
  } else if (threadIdx.x == 64 && piece.last == length && shape.neighbour[upper]) {
    await_partition(requests, upper, at_far_end ? shape.partitions[upper] - 1 : 0);
  }
  __syncthreads();
}

template <bool measure>
__global__ void __launch_bounds__(block_threads)
    sweep_kernel(const __grid_constant__ Shape shape, const __grid_constant__ Tiling tiling,
                 const __grid_constant__ Sweep sweep) {
  const int block = static_cast<int>(blockIdx.x);
  const double change = block < tiling.pieces ? relax_piece<measure>(shape, sweep, piece_at(shape, block))
                                              : relax_tile<measure>(shape, tiling, sweep, block - tiling.pieces);
  if (measure) take_largest(change, sweep.change);
}

template <bool measure, int blocks_each>
__global__ void __launch_bounds__(block_threads, blocks_each)
    marking_kernel(const __grid_constant__ Shape shape, const __grid_constant__ Tiling tiling,
                   const __grid_constant__ Sweep sweep, const __grid_constant__ HaloRequests requests) {
  const int block = static_cast<int>(blockIdx.x);
  double change = 0.0;
  if (block < tiling.pieces) {
    const Piece piece = piece_at(shape, block);
    const bool sent = shape.neighbour[piece.side];
    if (sent && requests.await) await_halo(shape, requests, piece);
    change = relax_piece<measure>(shape, sweep, piece);
    // What it may have found wrong comes out of the host's next wait on the request. Each side's request by its own
    // name: to pick one by number takes more registers than five blocks leave.
#pragma unroll
    for (int side = 0; side < sides; ++side) {
      if (sent && side == piece.side) MPIX_Pready_block(piece.partition, requests.send[side]);
    }
  } else {
    change = relax_tile<measure>(shape, tiling, sweep, block - tiling.pieces);
  }
  if (measure) take_largest(change, sweep.change);
}

/// What the interior's registers allow.
constexpr int many_blocks_each = 5;

using MarkingKernel = void (*)(Shape, Tiling, Sweep, HaloRequests);

MarkingKernel marking_kernel_for(bool measure, bool crowded) {
  if (crowded) return measure ? marking_kernel<true, many_blocks_each> : marking_kernel<false, many_blocks_each>;
  return measure ? marking_kernel<true, few_blocks_each> : marking_kernel<false, few_blocks_each>;
}

unsigned int blocks_of(const Tiling& tiling) {
  return static_cast<unsigned int>(tiling.pieces + tiling.tiles);
}

template <class Kernel>
void load(Kernel kernel) {
  cudaFuncAttributes attributes;
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
}

}  // namespace

void launch_sweep(const Shape& shape, const Tiling& tiling, const Sweep& sweep, cudaStream_t stream) {
  if (blocks_of(tiling) == 0) return;  // a plate of two rows has no interior
  const auto kernel = sweep.change != nullptr ? sweep_kernel<true> : sweep_kernel<false>;
  kernel<<<blocks_of(tiling), block_threads, 0, stream>>>(shape, tiling, sweep);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void launch_marking_sweep(const Shape& shape, const Tiling& tiling, const Sweep& sweep, const HaloRequests& requests,
                          cudaStream_t stream) {
  const MarkingKernel kernel = marking_kernel_for(sweep.change != nullptr, tiling.crowded);
  kernel<<<blocks_of(tiling), block_threads, 0, stream>>>(shape, tiling, sweep, requests);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void load_sweeps() {
  load(sweep_kernel<false>);
  load(sweep_kernel<true>);
  for (const bool measure : {false, true}) {
    for (const bool crowded : {false, true}) load(marking_kernel_for(measure, crowded));
  }
}

}  // namespace jacobi2d::gpu
