// The runs of cells that kernels pack and unpack.
#pragma once

#include "apps/halo/gpu/kernels.hpp"
#include "apps/halo/messages.hpp"

namespace partita {

/// The runs of `block`'s own rim, and where they are sent from.
gpu_halo_kernels::Runs own_runs(const halo_messages& messages, const framed_block& block);
/// The runs of its frame, and where they are received.
gpu_halo_kernels::Runs ghost_runs(const halo_messages& messages, const framed_block& block);

}  // namespace partita
