#include "apps/jacobi2d/gpu/residents.hpp"

#include <cooperative_groups.h>
// Sweeps and marks of four blocks a multiprocessor.
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

__device__ void note(const Residents& residents, int code) {
  if (code != PARTITA_DEVICE_SUCCESS && threadIdx.x == 0) atomicCAS(&residents.result->failure, 0, code);
}

/// A block's times, which are its thread 0's. In shared memory: registers are scarce.
struct Watch {
  unsigned long long begin_ns;
  unsigned long long waited_ns;  ///< for neighbours
};

/// One thread block's care for the requests of the sides that are its own: it opens, prepares and completes their
/// epochs for all blocks, which see it after the next barrier of the grid. Whoever has met an error waits for nothing
/// any more, so that the grid comes to its next look at the residual and ends there. All threads of the block call.
class Keeper {
 public:
  __device__ Keeper(const Residents& residents, Watch& watch) : residents_(residents), watch_(watch) {}

  /// Neighbours may fill the halo that `iteration` produces.
  __device__ void start_receives(int iteration) {
#pragma unroll 1
    for (int side = 0; side < sides; ++side) {
      if (keeps(side)) check(MPIX_Pstart(residents_.recv[iteration % resident_sets][side]));
    }
  }

  /// From the next barrier on every block may mark the edges of `iteration`.
  __device__ void open_sends(int iteration) {
#pragma unroll 1
    for (int side = 0; side < sides; ++side) {
      if (!keeps(side)) continue;
      const MPIX_Prequest& send = residents_.send[iteration % resident_sets][side];
      const unsigned long long begin = now_ns();
      check(MPIX_Pstart(send));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(Partita_Pbuf_prepare(send));
      add_wait(begin);
    }
  }

  /// Both of an iteration and the one after it: its halo has come, its edges have left, and every block may mark the
  /// next ones from the next barrier on.
  __device__ void turn(int iteration) {
#pragma unroll 1
    for (int side = 0; side < sides; ++side) {
      if (!keeps(side)) continue;
      const int set = iteration % resident_sets, next_set = (iteration + 1) % resident_sets;
      const unsigned long long begin = now_ns();
      check(MPIX_Pnext(residents_.send[set][side], residents_.recv[set][side], residents_.send[next_set][side]));
      add_wait(begin);
    }
  }

  /// The halo of `iteration` has come, and its edges have left.
  __device__ void complete(int iteration) {
#pragma unroll 1
    for (int side = 0; side < sides; ++side) {
      if (!keeps(side)) continue;
      const unsigned long long begin = now_ns();
      check(MPIX_Pwait(residents_.recv[iteration % resident_sets][side]));
      if (code_ == PARTITA_DEVICE_SUCCESS) check(MPIX_Pwait(residents_.send[iteration % resident_sets][side]));
      add_wait(begin);
    }
  }

  __device__ void report() const {
    if (threadIdx.x == 0) atomicMax(&residents_.result->waited_ns, watch_.waited_ns);
  }

 private:
  /// The last blocks of the grid, which have no piece of the edge and the fewest tiles.
  __device__ bool is_mine(int side) const { return blockIdx.x == gridDim.x - 1 - side % gridDim.x; }
  __device__ bool keeps(int side) const {
    return code_ == PARTITA_DEVICE_SUCCESS && is_mine(side) && residents_.shape.neighbour[side];
  }
  __device__ void add_wait(unsigned long long begin) {
    if (threadIdx.x == 0) watch_.waited_ns += now_ns() - begin;
  }
  __device__ void check(int code) {
    code_ = code;
    note(residents_, code);
  }

  const Residents& residents_;
  Watch& watch_;
  int code_ = PARTITA_DEVICE_SUCCESS;
};

/// What one block does at every look for the whole rank: the residual of all ranks, and whether to stop. Every rank
/// sends its own to every other: one hop, and the same maximum everywhere. Out of line, since looks are rare and the
/// registers scarce.
__device__ bool is_judge() {
  return blockIdx.x == gridDim.x - 1 - sides % gridDim.x;
}

/// All threads of the block, which have read `judge_code`, in shared memory. It is read again behind a barrier of the
/// grid.
__device__ void keep(int code, int& judge_code) {
  __syncthreads();
  if (threadIdx.x == 0) judge_code = code;
}

/// Ahead of time, so that the others find this rank ready. All threads of the block.
__device__ void open_residuals(const Residents& residents, int& judge_code) {
  int code = PARTITA_DEVICE_SUCCESS;
#pragma unroll 1
  for (int other = 0; other < residents.other_ranks && code == PARTITA_DEVICE_SUCCESS; ++other) {
    code = MPIX_Pstart(residents.residual_recv[other]);
    if (code == PARTITA_DEVICE_SUCCESS) code = MPIX_Pstart(residents.residual_send[other]);
  }
  note(residents, code);
  keep(code, judge_code);
}

/// All threads of the block; a barrier.
__device__ int exchange_residuals(const Residents& residents, double own) {
  if (threadIdx.x == 0) *residents.own_residual = own;
  __syncthreads();
  int code = PARTITA_DEVICE_SUCCESS;
#pragma unroll 1
  for (int other = 0; other < residents.other_ranks && code == PARTITA_DEVICE_SUCCESS; ++other) {
    code = Partita_Pbuf_prepare(residents.residual_send[other]);
    if (code == PARTITA_DEVICE_SUCCESS) code = MPIX_Pready_block(0, residents.residual_send[other]);
  }
#pragma unroll 1
  for (int other = 0; other < residents.other_ranks && code == PARTITA_DEVICE_SUCCESS; ++other) {
    code = MPIX_Pwait(residents.residual_recv[other]);
    if (code == PARTITA_DEVICE_SUCCESS) code = MPIX_Pwait(residents.residual_send[other]);
  }
  note(residents, code);
  return code;
}

/// After a barrier of the grid behind the last cell of `iteration`. Another barrier must follow. All threads of the
/// block. `judge_code`: the first that went wrong before, or here.
__device__ void decide(const Residents& residents, int iteration, const Watch& watch, int& judge_code) {
  unsigned long long* const change = residents.sweeps[0].change;
  double largest = __longlong_as_double(static_cast<long long>(*const_cast<volatile unsigned long long*>(change)));
  if (judge_code == PARTITA_DEVICE_SUCCESS) keep(exchange_residuals(residents, largest), judge_code);
  if (threadIdx.x != 0) return;

  for (int other = 0; other < residents.other_ranks; ++other) {
    largest = fmax(largest, *static_cast<const volatile double*>(&residents.residuals[other]));
  }
  ResidentsResult& result = *residents.result;
  residents.looks[result.looks++] = {iteration, largest, now_ns() - watch.begin_ns};
  result.iterations = iteration;
  const bool failed = *static_cast<volatile int*>(&result.failure) != 0;
  result.converged = !failed && largest <= residents.tolerance ? 1 : 0;
  result.stop = failed || result.converged != 0 || iteration == residents.max_iterations ? 1 : 0;
  *change = 0;
}

/// This block's share of one iteration: its pieces of the edge, which leave at once, and its tiles.
__device__ void compute(const Residents& residents, int iteration, bool measure) {
  const Shape& shape = residents.shape;
  const Tiling& tiling = residents.tiling;
  const Sweep& sweep = residents.sweeps[iteration % sweep_kinds];
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int index = block; index < tiling.pieces; index += blocks) {
    const Piece piece = piece_at(shape, index);
    const double change = relax_piece<true>(shape, sweep, piece);
    if (measure) take_largest(change, sweep.change);  // ahead of the mark, which has no register for it
    if (!shape.neighbour[piece.side]) continue;
    note(residents, MPIX_Pready_block(piece.partition, residents.send[iteration % resident_sets][piece.side]));
  }
  const int first_tile = (block - tiling.pieces % blocks + blocks) % blocks;
  if (measure) {
    double change = 0.0;
#pragma unroll 1
    for (int index = first_tile; index < tiling.tiles; index += blocks) {
      change = fmax(change, relax_tile<true>(shape, tiling, sweep, index));
    }
    take_largest(change, sweep.change);
  } else {
#pragma unroll 1
    for (int index = first_tile; index < tiling.tiles; index += blocks) {
      relax_tile<false>(shape, tiling, sweep, index);
    }
  }
}

/// One barrier of the grid ends an iteration: behind it the field is complete, the neighbours' cells have come, and the
/// next sends are open. A look at the residual takes two more: it may be the last iteration, and then no epoch after it
/// may be open, so the next one is opened in a turn that computes nothing, as the first is.
template <int blocks_each>
__global__ void __launch_bounds__(block_threads, blocks_each)
    residents_kernel(const __grid_constant__ Residents residents) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  __shared__ Watch watch;
  __shared__ int judge_code;  // in shared memory, since registers are scarce
  if (threadIdx.x == 0) {
    watch = {now_ns(), 0};
    judge_code = PARTITA_DEVICE_SUCCESS;
  }
  __syncthreads();
  Keeper keeper(residents, watch);
  bool computes = false;
  for (int iteration = 0;;) {
    const bool look = computes && (iteration % residents.check_every == 0 || iteration == residents.max_iterations);
    if (!look) keeper.start_receives(iteration + 1);
    if (look && is_judge() && judge_code == PARTITA_DEVICE_SUCCESS) open_residuals(residents, judge_code);
    if (computes) compute(residents, iteration, look);
    if (!computes) {
      keeper.open_sends(iteration + 1);
    } else if (look) {
      keeper.complete(iteration);
    } else {
      keeper.turn(iteration);
    }
    grid.sync();
    if (!look) {
      ++iteration;
      computes = true;
      continue;
    }

    if (is_judge()) decide(residents, iteration, watch, judge_code);
    grid.sync();
    if (*static_cast<volatile int*>(&residents.result->stop) != 0) break;
    computes = false;
  }
  keeper.report();
}

/// A compromise: the interior alone would have more.
constexpr int many_blocks_each = 4;

void load(void (*kernel)(Residents)) {
  cudaFuncAttributes attributes;
  PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
}

}  // namespace

int resident_blocks(const Shape& shape, int multiprocessors) {
  int each = 0;
  PARTITA_APPS_CUDA(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, residents_kernel<many_blocks_each>, block_threads, 0));
  // A barrier of few blocks is faster; many keep the memory busy.
  constexpr int strips_each = 16;
  load(residents_kernel<few_blocks_each>);
  const int strips = shape.rows * ((shape.columns + block_threads - 1) / block_threads);
  return multiprocessors * (strips > strips_each * multiprocessors ? each : 1);
}

void launch_residents(const Residents& residents, int blocks, cudaStream_t stream) {
  void* arguments[] = {const_cast<Residents*>(&residents)};
  const auto kernel = residents.tiling.crowded ? residents_kernel<many_blocks_each> : residents_kernel<few_blocks_each>;
  PARTITA_APPS_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel),
                                                dim3(static_cast<unsigned int>(blocks)), dim3(block_threads), arguments,
                                                0, stream));
}

}  // namespace jacobi2d::gpu
