// The kernels of a halo in GPU memory. What nvcc compiles knows nothing of MPI.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/device/prequest.h>

#include <cstddef>
#include <cstdint>

namespace partita::gpu_halo_kernels {

inline constexpr int most_runs = 8;

/// The cells along one edge or in one corner, `step` cells apart, and where they lie packed.
struct Run {
  std::uint64_t* cells;
  std::ptrdiff_t step;
  std::uint64_t* packed;
  int count;
};
/// Those in all directions that have a neighbour.
struct Runs {
  Run runs[most_runs];
  int count = 0;
};

/// The device-driven requests of a direction: the packed cells go there, and come from there.
struct Link {
  MPIX_Prequest send, receive;
};
struct Links {
  Link links[most_runs];
};

/// Each puts one kernel into `stream`, or none where there are no runs.
void launch_pack(const Runs& runs, cudaStream_t stream);
void launch_unpack(const Runs& runs, cudaStream_t stream);
/// The whole exchange: a block a direction opens its epochs, packs the run of `own`, marks it, and awaits and unpacks
/// that of `ghosts`. `*failure` takes the first PARTITA_DEVICE_ERR_* of a call.
void launch_exchange(const Links& links, const Runs& own, const Runs& ghosts, int* failure, cudaStream_t stream);

/// CUDA loads a kernel at its first use, which waits for kernels that run.
void load();

}  // namespace partita::gpu_halo_kernels
