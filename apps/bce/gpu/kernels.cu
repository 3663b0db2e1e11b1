#include "apps/bce/gpu/kernels.hpp"

#include <cooperative_groups.h>
#include <partita/device.cuh>

#include <algorithm>

#include "apps/support/cuda_check.hpp"

namespace bce::gpu {
namespace {

constexpr int warp_threads = 32;
constexpr int warps = block_threads / warp_threads;

__device__ double warp_sum(double value) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

__device__ double sigmoid(double logit) {
  return logit >= 0 ? 1.0 / (1.0 + exp(-logit)) : 1.0 - 1.0 / (1.0 + exp(logit));
}

/// A warp computes a sample.
__device__ void forward(const Model& model, int step) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_threads;
  double loss = 0;
  for (std::int64_t i = first; i < model.samples; i += static_cast<std::int64_t>(gridDim.x) * warps) {
    const double* const row = model.values + i * model.features;
    double logit = 0;
    for (int f = lane; f < model.features; f += warp_threads) logit += row[f] * model.weights[f];
    logit = warp_sum(logit);
    if (lane != 0) continue;
    const double label = model.labels[i];
    model.slopes[i] = (sigmoid(logit) - label) / static_cast<double>(model.all_samples);
    loss += fmax(logit, 0.0) - logit * label + log1p(exp(-fabs(logit)));
  }
  if (lane == 0 && first < model.samples) atomicAdd(&model.losses[step], loss);
}

/// A block computes a part: a warp a run of samples, a lane a feature, and then a warp the sum over the warps.
__device__ void backward(const Model& model, int part) {
  __shared__ double partial[warps][warp_threads];
  const int lane = static_cast<int>(threadIdx.x) % warp_threads, warp = static_cast<int>(threadIdx.x) / warp_threads;
  const int size = model.features / model.parts;
  for (int run = 0; run < size; run += warp_threads) {
    const int f = part * size + run + lane;
    const bool mine = run + lane < size;
    double sum = 0;
    for (std::int64_t i = warp; mine && i < model.samples; i += warps) {
      sum += model.slopes[i] * model.values[i * model.features + f];
    }
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && mine) {
      sum = 0;
      for (int w = 0; w < warps; ++w) sum += partial[w][lane];
      model.own[f] = sum;
    }
    __syncthreads();
  }
}

__device__ void update(const Model& model) {
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  for (int f = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); f < model.features; f += threads) {
    model.weights[f] -= model.rate * model.sum[f];
  }
}

/// Keeps the first code of all blocks.
__device__ void note(int* failure, int code) {
  if (code != PARTITA_DEVICE_SUCCESS && threadIdx.x == 0) atomicCAS(failure, 0, code);
}

__global__ void __launch_bounds__(block_threads) forward_kernel(const __grid_constant__ Model model, int step) {
  forward(model, step);
}

__global__ void __launch_bounds__(block_threads) backward_kernel(const __grid_constant__ Model model) {
  for (int part = static_cast<int>(blockIdx.x); part < model.parts; part += static_cast<int>(gridDim.x)) {
    backward(model, part);
  }
}

__global__ void __launch_bounds__(block_threads)
    marking_kernel(const __grid_constant__ Model model, const __grid_constant__ MPIX_Prequest allreduce, int* failure) {
  for (int part = static_cast<int>(blockIdx.x); part < model.parts; part += static_cast<int>(gridDim.x)) {
    backward(model, part);
    note(failure, MPIX_Pready_block(part, allreduce));
  }
}

__global__ void __launch_bounds__(block_threads) update_kernel(const __grid_constant__ Model model) {
  update(model);
}

/// The allreduce is a barrier of the grid at both ends; a step needs one more behind each of its other halves.
__global__ void __launch_bounds__(block_threads)
    steps_kernel(const __grid_constant__ Model model, const __grid_constant__ MPIX_Prequest allreduce, int first_step,
                 int steps, int* failure) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int step = first_step; step < first_step + steps; ++step) {
    forward(model, step);
    grid.sync();
    for (int part = static_cast<int>(blockIdx.x); part < model.parts; part += static_cast<int>(gridDim.x)) {
      backward(model, part);
    }
    const int code = MPIX_Pallreduce(allreduce);
    note(failure, code);
    // Other blocks may have another code: none of them goes on to a step that one block leaves out.
    grid.sync();
    if (*static_cast<volatile int*>(failure) != 0) return;
    update(model);
    grid.sync();
  }
}

/// The collective ends with a barrier of the grid: any block may mark what others have stored. As its grid has no more
/// than a block a multiprocessor, a thread may have the registers that the calls need together.
__global__ void __launch_bounds__(block_threads, 1)
    scattering_kernel(const __grid_constant__ Model model, const __grid_constant__ MPIX_Prequest scatter,
                      const __grid_constant__ MPIX_Prequest across, int partitions, int* failure) {
  for (int part = static_cast<int>(blockIdx.x); part < model.parts; part += static_cast<int>(gridDim.x)) {
    backward(model, part);
  }
  int code = MPIX_Preduce_scatter(scatter);
  for (int p = static_cast<int>(blockIdx.x); p < partitions && code == PARTITA_DEVICE_SUCCESS;
       p += static_cast<int>(gridDim.x)) {
    code = MPIX_Pready_block(p, across);
  }
  note(failure, code);
}

__global__ void __launch_bounds__(block_threads)
    gathering_kernel(const __grid_constant__ Model model, const __grid_constant__ MPIX_Prequest gather, int* failure) {
  const int code = MPIX_Pallgather(gather);
  note(failure, code);
  if (code == PARTITA_DEVICE_SUCCESS) update(model);
}

/// A grid that waits for itself.
template <class Kernel>
void launch_at_once(Kernel kernel, int blocks, void** arguments, cudaStream_t stream) {
  PARTITA_APPS_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel),
                                                dim3(static_cast<unsigned>(blocks)), dim3(block_threads), arguments, 0,
                                                stream));
}

/// Enough blocks for `items`, but no more than the GPU runs at once by a small factor.
unsigned grid_for(std::int64_t items, std::int64_t items_a_block) {
  constexpr std::int64_t most_blocks = 2048;
  return static_cast<unsigned>(std::clamp((items + items_a_block - 1) / items_a_block, std::int64_t{1}, most_blocks));
}

}  // namespace

void launch_forward(const Model& model, int step, cudaStream_t stream) {
  forward_kernel<<<grid_for(model.samples, warps), block_threads, 0, stream>>>(model, step);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void launch_backward(const Model& model, const MPIX_Prequest* marked, int* failure, cudaStream_t stream) {
  const unsigned blocks = grid_for(model.parts, 1);
  if (marked == nullptr) {
    backward_kernel<<<blocks, block_threads, 0, stream>>>(model);
  } else {
    marking_kernel<<<blocks, block_threads, 0, stream>>>(model, *marked, failure);
  }
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void launch_update(const Model& model, cudaStream_t stream) {
  update_kernel<<<grid_for(model.features, block_threads), block_threads, 0, stream>>>(model);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

int most_training_blocks() {
  int device = 0, multiprocessors = 0, each = 0;
  PARTITA_APPS_CUDA(cudaGetDevice(&device));
  PARTITA_APPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PARTITA_APPS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, steps_kernel, block_threads, 0));
  return multiprocessors * each;
}

void launch_steps(const Model& model, const MPIX_Prequest& allreduce, int first_step, int steps, int blocks,
                  int* failure, cudaStream_t stream) {
  Model model_argument = model;
  MPIX_Prequest request_argument = allreduce;
  void* arguments[] = {&model_argument, &request_argument, &first_step, &steps, &failure};
  launch_at_once(steps_kernel, blocks, arguments, stream);
}

void launch_backward_and_scatter(const Model& model, const MPIX_Prequest& scatter, const MPIX_Prequest& across,
                                 int partitions, int blocks, int* failure, cudaStream_t stream) {
  Model model_argument = model;
  MPIX_Prequest scatter_argument = scatter, across_argument = across;
  void* arguments[] = {&model_argument, &scatter_argument, &across_argument, &partitions, &failure};
  launch_at_once(scattering_kernel, blocks, arguments, stream);
}

void launch_gather_and_update(const Model& model, const MPIX_Prequest& gather, int blocks, int* failure,
                              cudaStream_t stream) {
  Model model_argument = model;
  MPIX_Prequest request_argument = gather;
  void* arguments[] = {&model_argument, &request_argument, &failure};
  launch_at_once(gathering_kernel, blocks, arguments, stream);
}

void load_kernels() {
  cudaFuncAttributes attributes;
  for (const void* kernel :
       {reinterpret_cast<const void*>(forward_kernel), reinterpret_cast<const void*>(backward_kernel),
        reinterpret_cast<const void*>(marking_kernel), reinterpret_cast<const void*>(update_kernel),
        reinterpret_cast<const void*>(steps_kernel), reinterpret_cast<const void*>(scattering_kernel),
        reinterpret_cast<const void*>(gathering_kernel)}) {
    PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  }
}

}  // namespace bce::gpu
