#include "apps/cg/gpu/kernels.hpp"

#include <algorithm>

#include "apps/support/cuda_check.hpp"

namespace cg::gpu {
namespace {

constexpr int block_threads = 256;
constexpr int warp_threads = 32;
constexpr int warps = block_threads / warp_threads;
constexpr auto direction = static_cast<int>(Product::direction);
constexpr auto residual = static_cast<int>(Product::residual);

/// Where this rank's rows of p begin, as Vectors::first_row() says on the host.
__device__ double* own_rows(const Vectors& v) {
  return v.p + v.columns;
}

/// 0 where there is nothing left to divide: then the solution is exact.
__device__ double quotient(double of, double by) {
  return by > 0 ? of / by : 0.0;
}

/// The sum of all threads' values of the block, on its first thread.
__device__ double block_sum(double value) {
  __shared__ double of_warps[warps];
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffU, value, distance);
  }
  __syncthreads();  // the threads may still read the sums before
  if (threadIdx.x % warp_threads == 0) of_warps[threadIdx.x / warp_threads] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0) {
    for (const double each : of_warps) sum += each;
  }
  return sum;
}

/// Stores the sum over all threads of the grid: the block that ends last adds what the others have left, in their
/// order. Returns whether this is that block, behind all others.
__device__ bool sum_to(double* to, double value, Scratch* scratch) {
  __shared__ bool is_last;
  const double of_block = block_sum(value);
  if (threadIdx.x == 0) {
    scratch->sums[blockIdx.x] = of_block;
    __threadfence();
    is_last = atomicInc(&scratch->ended, gridDim.x - 1) == gridDim.x - 1;  // which makes it 0 again
  }
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
  double sum = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += block_threads) {
    sum += *static_cast<volatile double*>(&scratch->sums[block]);
  }
  const double all = block_sum(sum);
  if (threadIdx.x == 0) *to = all;
  return true;
}

/// Calls body(i) for the thread's points.
template <class Body>
__device__ void for_each_point(const Vectors& v, Body body) {
  const int points = v.rows * v.columns;
  const int threads = static_cast<int>(gridDim.x) * block_threads;
  for (int i = static_cast<int>(blockIdx.x) * block_threads + static_cast<int>(threadIdx.x); i < points; i += threads) {
    body(i);
  }
}

__global__ void __launch_bounds__(block_threads) start_kernel(const __grid_constant__ Model model) {
  const Vectors& v = model.vectors;
  double* const p = own_rows(v);
  double sum = 0;
  for_each_point(v, [&](int i) {
    const double r = model.right_hand_side[i];
    v.x[i] = 0;
    v.r[i] = r;
    p[i] = r;
    sum += r * r;
  });
  sum_to(&v.numbers->own[residual], sum, model.scratch);
}

__global__ void __launch_bounds__(block_threads) apply_kernel(const __grid_constant__ Model model) {
  const Vectors& v = model.vectors;
  const double* const p = own_rows(v);
  double sum = 0;
  for_each_point(v, [&](int i) {
    const int column = i % v.columns;
    const double left = column > 0 ? p[i - 1] : 0.0;
    const double right = column + 1 < v.columns ? p[i + 1] : 0.0;
    const double q = 4 * p[i] - p[i - v.columns] - p[i + v.columns] - left - right;
    v.q[i] = q;
    sum += p[i] * q;
  });
  const bool is_last = sum_to(&v.numbers->own[direction], sum, model.scratch);
  if (is_last && threadIdx.x == 0) v.numbers->before = v.numbers->all[residual];
}

__global__ void __launch_bounds__(block_threads) advance_kernel(const __grid_constant__ Model model) {
  const Vectors& v = model.vectors;
  const double* const p = own_rows(v);
  const double alpha = quotient(v.numbers->before, v.numbers->all[direction]);
  double sum = 0;
  for_each_point(v, [&](int i) {
    v.x[i] += alpha * p[i];
    const double r = v.r[i] - alpha * v.q[i];
    v.r[i] = r;
    sum += r * r;
  });
  sum_to(&v.numbers->own[residual], sum, model.scratch);
}

__global__ void __launch_bounds__(block_threads) turn_kernel(const __grid_constant__ Model model) {
  const Vectors& v = model.vectors;
  double* const p = own_rows(v);
  const double beta = quotient(v.numbers->all[residual], v.numbers->before);
  for_each_point(v, [&](int i) { p[i] = v.r[i] + beta * p[i]; });
}

/// A thread has a few points, and no more blocks run than a few for each multiprocessor.
template <class Kernel>
void launch(Kernel kernel, const Model& model, cudaStream_t stream) {
  const std::ptrdiff_t points = model.vectors.points();
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::ptrdiff_t>((points + block_threads - 1) / block_threads, 1, Scratch::most_blocks));
  kernel<<<blocks, block_threads, 0, stream>>>(model);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

}  // namespace

void launch_start(const Model& model, cudaStream_t stream) {
  launch(start_kernel, model, stream);
}

void launch_apply(const Model& model, cudaStream_t stream) {
  launch(apply_kernel, model, stream);
}

void launch_advance(const Model& model, cudaStream_t stream) {
  launch(advance_kernel, model, stream);
}

void launch_turn(const Model& model, cudaStream_t stream) {
  launch(turn_kernel, model, stream);
}

void load_kernels() {
  cudaFuncAttributes attributes;
  for (auto* const kernel : {start_kernel, apply_kernel, advance_kernel, turn_kernel}) {
    PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  }
}

}  // namespace cg::gpu
