// Whether the MPI's own calls take GPU memory, by Partita or by the MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/settings.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"

namespace partita {

struct GpuAwareness {
  bool on = false;  ///< the drop-in gives GPU memory to Partita
  std::string why;  ///< this rank's reason; a clause
  /// From so many bytes of a rank's buffer on, the MPI's blocking collectives go by peer memory; none: never.
  std::optional<std::int64_t> peers_from_bytes = std::nullopt;
};

/// The same answer on all ranks: Partita takes GPU memory where no rank is against it, by its setting or because its
/// MPI does; from as many bytes on by peer memory as the rank wants that wants the most. Collective. Throws Error.
GpuAwareness agree_on_gpu_awareness(const Settings& settings, const World& world,
                                    const memory::DeviceMemory& device_memory);

}  // namespace partita
