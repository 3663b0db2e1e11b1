// Whether the MPI's own calls take GPU memory, by Partita or by the MPI.
#pragma once

#include <string>

#include "core/settings.hpp"
#include "core/world.hpp"

namespace partita {

struct GpuAwareness {
  bool on = false;  ///< the drop-in gives GPU memory to Partita
  std::string why;  ///< this rank's reason; a clause
};

/// The same answer on all ranks: Partita takes GPU memory where no rank is against it, by its setting or because its
/// MPI does. Collective. Throws Error.
GpuAwareness agree_on_gpu_awareness(const Settings& settings, const World& world);

}  // namespace partita
