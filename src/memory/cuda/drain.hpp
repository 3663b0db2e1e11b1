// Waits of the host for a stream.
#pragma once

#include "memory/cuda/driver.hpp"

namespace partita::memory::cuda {

/// Blocks until `stream`, of GPU `device`, whose context is current, has done all that it was given. Logs once where
/// that takes so long that it looks like a hang. Throws Error.
void drain(CUstream stream, int device);

}  // namespace partita::memory::cuda
