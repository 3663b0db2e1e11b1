// Memory of this rank's GPU, mapped for the host's CPU.
#pragma once

#include "bench/cpu_mapping.hpp"

namespace partita::bench::gpu {

/// A MapForCpu: by GDRCopy where its library and its kernel module are there, else by a dma-buf where the driver lets
/// the CPU map one.
CpuMapped map_for_cpu(std::byte* allocation);

}  // namespace partita::bench::gpu
