// The ranks compute on GPUs, one process a GPU: what is the same in a build with CUDA and in one without.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>

#include "apps/cg/machine.hpp"

namespace cg::gpu {

/// Chooses this rank's GPU among those of its node. Collective. What stands in the way, as a sentence, the same on
/// every rank; nothing if GPUs can be used.
std::optional<std::string> choose_device(MPI_Comm comm);

/// After choose_device. `sums`: who does enqueued allreduces, "auto", "kernels" or "engine". Throws std::runtime_error
/// if the GPU has no memory. Collective.
std::unique_ptr<Machine> make_device(const Share& share, const std::string& sums);

}  // namespace cg::gpu
