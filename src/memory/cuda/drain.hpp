// Waits of the host for a stream.
#pragma once

#include <functional>

#include "memory/cuda/driver.hpp"

namespace partita::memory::cuda {

/// Blocks until `stream`, of GPU `device`, whose context is current, has done all that it was given. Calls `meanwhile`
/// with `device`, unless that is empty, again and again where that takes long, and logs once where it looks like a
/// hang. Throws Error.
void drain(CUstream stream, int device, const std::function<void(int)>& meanwhile);

}  // namespace partita::memory::cuda
