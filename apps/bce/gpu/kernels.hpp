// The kernels of a training step. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/device/prequest.h>

#include <cstdint>

namespace bce::gpu {

inline constexpr int block_threads = 256;

/// What kernels work on, in GPU memory: this rank's samples, row by row, and the model. The gradient has `parts` parts,
/// which divide the features.
struct Model {
  std::int64_t samples;
  std::int64_t all_samples;  ///< of all ranks
  int features;
  int parts;
  double rate;
  const double* values;
  const double* labels;
  double* weights;
  double* slopes;  ///< of each sample
  double* own;     ///< this rank's gradient
  double* sum;     ///< that of all ranks
  double* losses;  ///< the sum over this rank's samples, of each step; zeroed
};

/// Each puts one kernel into `stream`, with a grid of the GPU's size. Loading the kernels first is load_kernels().
void launch_forward(const Model& model, int step, cudaStream_t stream);
/// A thread block computes a part, and marks it if `marked` is not null: the device request of a host-driven allreduce.
/// `*failure` takes the first PARTITA_DEVICE_ERR_* of a mark.
void launch_backward(const Model& model, const MPIX_Prequest* marked, int* failure, cudaStream_t stream);
void launch_update(const Model& model, cudaStream_t stream);

/// Thread blocks that stay on the current device at once.
int most_training_blocks();
/// `steps` whole steps from `first_step` on in one kernel, summed by device-driven `allreduce`. `*failure` takes the
/// PARTITA_DEVICE_ERR_* that ends it before.
void launch_steps(const Model& model, const MPIX_Prequest& allreduce, int first_step, int steps, int blocks,
                  int* failure, cudaStream_t stream);

/// Two halves of a step on two nodes, which have the forward half behind them. The first one computes the gradient,
/// reduces it over the node by device-driven `scatter` and marks the partitions of the host-driven `across`, whose send
/// buffer is this rank's part.
void launch_backward_and_scatter(const Model& model, const MPIX_Prequest& scatter, const MPIX_Prequest& across,
                                 int partitions, int blocks, int* failure, cudaStream_t stream);
/// The second one gathers the sum by device-driven `gather` and updates the weights.
void launch_gather_and_update(const Model& model, const MPIX_Prequest& gather, int blocks, int* failure,
                              cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load_kernels();

}  // namespace bce::gpu
