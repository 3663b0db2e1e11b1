#include "apps/jacobi2d/gpu/residents.hpp"

#include <cooperative_groups.h>
#include <partita/device.cuh>

#include "apps/jacobi2d/gpu/cells.cuh"
#include "apps/jacobi2d/gpu/cuda_check.hpp"

namespace jacobi2d::gpu {
namespace {

__device__ unsigned long long now_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ void note(const Residents& residents, int code) {
  if (code != PARTITA_DEVICE_SUCCESS && threadIdx.x == 0) atomicCAS(&residents.result->failure, 0, code);
}

/// One thread block's care for the requests of the sides that are its own: it opens, prepares and completes their
/// epochs for all blocks, which see it after the next barrier of the grid. Whoever has met an error waits for nothing
/// any more, so that the grid comes to its next look at the residual and ends there. All threads of the block call.
class Keeper {
 public:
  __device__ explicit Keeper(const Residents& residents) : residents_(residents) {}

  /// Neighbours may fill the halo that `iteration` produces.
  __device__ void start_receives(int iteration) {
    for (int side = 0; side < sides; ++side) {
      if (keeps(side)) check(MPIX_Pstart(residents_.recv[iteration % resident_sets][side]));
    }
  }

  /// From the next barrier on every block may mark the edges of `iteration`.
  __device__ void open_sends(int iteration) {
    for (int side = 0; side < sides; ++side) {
      if (!keeps(side)) continue;
      const MPIX_Prequest& send = residents_.send[iteration % resident_sets][side];
      const unsigned long long begin = now_ns();
      check(MPIX_Pstart(send));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(Partita_Pbuf_prepare(send));
      waited_ns_[side] += now_ns() - begin;
    }
  }

  /// The halo of `iteration` has come, and its edges have left.
  __device__ void complete(int iteration) {
    for (int side = 0; side < sides; ++side) {
      if (!keeps(side)) continue;
      const unsigned long long begin = now_ns();
      check(MPIX_Pwait(residents_.recv[iteration % resident_sets][side]));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(MPIX_Pwait(residents_.send[iteration % resident_sets][side]));
      waited_ns_[side] += now_ns() - begin;
    }
  }

  __device__ void report() const {
    for (int side = 0; side < sides; ++side) {
      if (is_mine(side) && threadIdx.x == 0) residents_.result->waited_ns[side] = waited_ns_[side];
    }
  }

 private:
  /// The last blocks of the grid, which have no piece of the edge and the fewest tiles.
  __device__ bool is_mine(int side) const { return blockIdx.x == gridDim.x - 1 - side % gridDim.x; }
  __device__ bool keeps(int side) const {
    return code_ == PARTITA_DEVICE_SUCCESS && is_mine(side) && residents_.shape.neighbour[side];
  }
  __device__ void check(int code) {
    code_ = code;
    note(residents_, code);
  }

  const Residents& residents_;
  int code_ = PARTITA_DEVICE_SUCCESS;
  unsigned long long waited_ns_[sides] = {0, 0, 0, 0};
};

/// What one block does at every look for the whole rank: the residual of all ranks, and whether to stop. Every rank
/// sends its own to every other: one hop, and the same maximum everywhere.
class Judge {
 public:
  __device__ explicit Judge(const Residents& residents) : residents_(residents), begin_ns_(now_ns()) {}

  __device__ bool is_here() const { return blockIdx.x == gridDim.x - 1 - sides % gridDim.x; }

  /// Ahead of time, so that the others find this rank ready.
  __device__ void open() {
    for (int other = 0; other < residents_.other_ranks && code_ == PARTITA_DEVICE_SUCCESS; ++other) {
      check(MPIX_Pstart(residents_.residual_recv[other]));
      check(MPIX_Pstart(residents_.residual_send[other]));
    }
  }

  /// After a barrier of the grid behind the last cell of `iteration`. Another barrier must follow.
  __device__ void decide(int iteration) {
    unsigned long long* const change = residents_.sweeps[0].change;
    double largest = __longlong_as_double(static_cast<long long>(*const_cast<volatile unsigned long long*>(change)));
    if (threadIdx.x == 0) *residents_.own_residual = largest;
    __syncthreads();
    send();
    receive();
    if (threadIdx.x != 0) return;

    for (int other = 0; other < residents_.other_ranks; ++other) largest = fmax(largest, residents_.residuals[other]);
    ResidentsResult& result = *residents_.result;
    residents_.looks[result.looks++] = {iteration, largest, now_ns() - begin_ns_};
    result.iterations = iteration;
    const bool failed = *static_cast<volatile int*>(&result.failure) != 0;
    result.converged = !failed && largest <= residents_.tolerance ? 1 : 0;
    result.stop = failed || result.converged != 0 || iteration == residents_.max_iterations ? 1 : 0;
    *change = 0;
  }

 private:
  __device__ void send() {
    for (int other = 0; other < residents_.other_ranks && code_ == PARTITA_DEVICE_SUCCESS; ++other) {
      check(Partita_Pbuf_prepare(residents_.residual_send[other]));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(MPIX_Pready_block(0, residents_.residual_send[other]));
    }
  }
  __device__ void receive() {
    for (int other = 0; other < residents_.other_ranks && code_ == PARTITA_DEVICE_SUCCESS; ++other) {
      check(MPIX_Pwait(residents_.residual_recv[other]));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(MPIX_Pwait(residents_.residual_send[other]));
    }
  }
  __device__ void check(int code) {
    if (code == PARTITA_DEVICE_SUCCESS) return;
    code_ = code;
    note(residents_, code);
  }

  const Residents& residents_;
  int code_ = PARTITA_DEVICE_SUCCESS;
  unsigned long long begin_ns_;
};

/// This block's share of one iteration: its pieces of the edge, which leave at once, and its tiles.
template <bool measure>
__device__ void compute(const Residents& residents, int iteration) {
  const Shape& shape = residents.shape;
  const Tiling& tiling = residents.tiling;
  const Sweep& sweep = residents.sweeps[iteration % sweep_kinds];
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  double change = 0.0;
  for (int index = block; index < tiling.pieces; index += blocks) {
    const Piece piece = piece_at(shape, index);
    change = fmax(change, relax_piece<measure>(shape, sweep, piece));
    if (!shape.neighbour[piece.side]) continue;
    note(residents, MPIX_Pready_block(piece.partition, residents.send[iteration % resident_sets][piece.side]));
  }
  const int first_tile = (block - tiling.pieces % blocks + blocks) % blocks;
  for (int index = first_tile; index < tiling.tiles; index += blocks) {
    change = fmax(change, relax_tile<measure>(shape, tiling, sweep, index));
  }
  if (measure) take_largest(change, sweep.change);
}

/// One barrier of the grid ends an iteration: behind it the field is complete, the neighbours' cells have come, and the
/// next sends are open. A look at the residual takes two more.
__global__ void __launch_bounds__(block_threads, 4) residents_kernel(const __grid_constant__ Residents residents) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  Keeper keeper(residents);
  Judge judge(residents);
  keeper.start_receives(1);
  keeper.open_sends(1);
  grid.sync();

  for (int iteration = 1;; ++iteration) {
    const bool look = iteration % residents.check_every == 0 || iteration == residents.max_iterations;
    if (!look) {
      keeper.start_receives(iteration + 1);
      compute<false>(residents, iteration);
      keeper.complete(iteration);
      keeper.open_sends(iteration + 1);
      grid.sync();
      continue;
    }

    // This iteration may be the last, and then no epoch after it may be open.
    if (judge.is_here()) judge.open();
    compute<true>(residents, iteration);
    keeper.complete(iteration);
    grid.sync();
    if (judge.is_here()) judge.decide(iteration);
    grid.sync();
    if (*static_cast<volatile int*>(&residents.result->stop) != 0) break;
    keeper.start_receives(iteration + 1);
    keeper.open_sends(iteration + 1);
    grid.sync();
  }
  keeper.report();
}

}  // namespace

int resident_blocks(const Shape& shape, int multiprocessors) {
  int each = 0;
  JACOBI2D_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, residents_kernel, block_threads, 0));
  // A barrier of few blocks is faster; many keep the memory busy.
  constexpr int strips_each = 16;
  const int strips = shape.rows * ((shape.columns + block_threads - 1) / block_threads);
  return multiprocessors * (strips > strips_each * multiprocessors ? each : 1);
}

void launch_residents(const Residents& residents, int blocks, cudaStream_t stream) {
  void* arguments[] = {const_cast<Residents*>(&residents)};
  JACOBI2D_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(residents_kernel),
                                            dim3(static_cast<unsigned int>(blocks)), dim3(block_threads), arguments, 0,
                                            stream));
}

}  // namespace jacobi2d::gpu
