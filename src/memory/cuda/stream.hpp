// Streams and events of CUDA, ours and the program's.
#pragma once

#include <memory>

#include "memory/cuda/context.hpp"
#include "memory/stream.hpp"

namespace partita::memory::cuda {

/// See DeviceMemory. Throw Error. `contexts` outlives what they return.
/// `memory_operations`: false as if this GPU had none, for tests.
std::unique_ptr<Stream> make_stream(Contexts& contexts, int device, bool memory_operations = true);
std::unique_ptr<Stream> stream_of_program(Contexts& contexts, void* native);
std::unique_ptr<Event> make_event(Contexts& contexts, int device);

}  // namespace partita::memory::cuda
