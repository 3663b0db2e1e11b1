// The ways to exchange the halo.
#pragma once

#include <array>
#include <string_view>

#include "apps/halo/halo.hpp"

namespace life {

/// In host memory.
struct HostMode {
  std::string_view name;
  partita::halo_way way;
};

inline constexpr std::array host_modes{
    HostMode{"traditional", partita::halo_way::traditional},
    HostMode{"queue-regular", partita::halo_way::queue_regular},
    HostMode{"queue-ready", partita::halo_way::queue_ready},
    HostMode{"partitioned", partita::halo_way::partitioned},
};

/// In GPU memory. Those that begin with graph are the queue's in CUDA graphs of several generations.
inline constexpr std::array<std::string_view, 8> gpu_mode_names{"traditional", "staged-mpi",     "queue-regular",
                                                                "queue-ready", "graph-regular",  "graph-ready",
                                                                "in-kernel",   "graph-in-kernel"};

}  // namespace life
