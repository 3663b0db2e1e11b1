// The exchange in plain MPI, which knows nothing of GPUs.
#pragma once

#include <memory>

#include "apps/cg/machine.hpp"
#include "apps/support/cuda_memory.hpp"

namespace cg::gpu {

/// What the MPI is given goes through page-locked host memory, and the host waits for the stream before: twice an
/// iteration for a sum and once for the rows. `vectors` lie in GPU memory.
std::unique_ptr<Exchange> exchange_through_host(const Share& share, const Vectors& vectors,
                                                const partita::apps::Stream& stream);

}  // namespace cg::gpu
