// The ways to sum the gradient over the ranks.
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <string_view>

#include "apps/bce/gradient.hpp"

namespace bce {

/// Where the samples lie in host memory.
struct Mode {
  std::string_view name;
  /// Collective. `threads` of this rank compute.
  std::unique_ptr<Summing> (*make)(MPI_Comm comm, const Gradient& gradient, int threads);
};

inline constexpr std::array modes{
    Mode{"allreduce", sum_by_allreduce},
    Mode{"nonblocking", sum_by_nonblocking},
    Mode{"partitioned", sum_by_partitions},
};

/// Where they lie in GPU memory (gpu/summing.hpp), in the order in which they run; the first is what the others are
/// compared with.
inline constexpr std::array<std::string_view, 6> gpu_mode_names{"traditional", "schedule",  "in-kernel",
                                                                "resident",    "two-level", "nccl"};

}  // namespace bce
