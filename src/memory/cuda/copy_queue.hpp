// Copies and flag writes on a stream of their own.
#pragma once

#include <memory>

#include "memory/cuda/context.hpp"
#include "memory/device.hpp"

namespace partita::memory::cuda {

/// See CopyQueue. Throws Error.
std::unique_ptr<CopyQueue> make_copy_queue(Contexts& contexts, int device);

}  // namespace partita::memory::cuda
