// The kernel of a partition whose neighbours are late.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

/// Words in host memory by which host and kernel begin together.
struct Meeting {
  unsigned running;  ///< the kernel has come
  unsigned go;       ///< the host says so
};

struct LateNeighbours {
  int partitions;
  int first;                    ///< the partition that is marked at once
  std::uint64_t delay_ns;       ///< from before that to the mark of the others
  std::uint64_t wait_limit_ns;  ///< of the kernel's wait for the host
};

/// One block marks the first partition when the host says so, and the others later; the report has the time between.
void launch_late_neighbours(const MPIX_Prequest& send, const LateNeighbours& marks, Meeting* meeting,
                            KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
