// Where the buffers of `partita tune` lie.
#pragma once

#include <cstddef>

#include "bench/subject.hpp"

namespace partita::bench::tune {

struct Memory {
  const char* name;
  Buffer (*allocate)(std::size_t size_bytes);
  /// Between this memory and the host's, either way; complete on return.
  void (*copy)(void* to, const void* from, std::size_t size_bytes);
};

const Memory& host_memory();

/// Memory of the GPU that bench::gpu::set_up has chosen. A build without CUDA has none: allocate throws Failure.
const Memory& gpu_memory();

}  // namespace partita::bench::tune
