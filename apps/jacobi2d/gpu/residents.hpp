// The whole solve as one kernel on each GPU: what it gets, what it leaves, and the launch.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/device/prequest.h>

#include "apps/jacobi2d/gpu/sweep.hpp"

namespace jacobi2d::gpu {

/// While a set of halos is read, neighbours fill the next one and may be told that the one after it is free.
inline constexpr int resident_sets = 3;
/// The fields alternate by twos and the sets by threes.
inline constexpr int sweep_kinds = 6;
inline constexpr int most_other_ranks = 31;  ///< DeviceBlock has room for one more

/// The residual at one look.
struct Look {
  int iteration;
  double residual;
  unsigned long long time_ns;  ///< since the kernel began
};

/// What the kernel leaves in GPU memory; zeroed before the launch.
struct ResidentsResult {
  int iterations;
  int looks;
  int converged;
  int stop;
  int failure;                   ///< the first PARTITA_DEVICE_ERR_* of a call, or 0
  unsigned long long waited_ns;  ///< for neighbours, of the thread block that waited longest
};

/// The kernel's parameter. All requests are device-driven.
struct Residents {
  Shape shape;
  Tiling tiling;
  Sweep sweeps[sweep_kinds];                 ///< of iteration i: sweeps[i % sweep_kinds]
  MPIX_Prequest send[resident_sets][sides];  ///< of iteration i: set i % resident_sets
  MPIX_Prequest recv[resident_sets][sides];
  int other_ranks;
  MPIX_Prequest residual_send[most_other_ranks];  ///< this rank's residual to each other rank
  MPIX_Prequest residual_recv[most_other_ranks];  ///< theirs
  double* own_residual;                           ///< sent
  const double* residuals;                        ///< received
  int max_iterations, check_every;
  double tolerance;
  Look* looks;  ///< room for every look
  ResidentsResult* result;
};

/// Thread blocks that stay on the current device until the end, for a block of cells of this shape. Loads the kernel.
int resident_blocks(const Shape& shape, int multiprocessors);

/// Starts the solve; does not wait. The host must not call anything that synchronises the device until it ends.
void launch_residents(const Residents& residents, int blocks, cudaStream_t stream);

}  // namespace jacobi2d::gpu
