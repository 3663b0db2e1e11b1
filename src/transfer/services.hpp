// What transfers build on.
#pragma once

#include <memory>
#include <vector>

#include "core/mailbox.hpp"
#include "core/progress.hpp"
#include "core/settings.hpp"
#include "core/trace.hpp"
#include "core/world.hpp"
#include "link/link.hpp"
#include "memory/device.hpp"
#include "memory/host.hpp"

namespace partita {

/// The runtime makes and owns all of it; it outlives whatever refers to it.
struct Services {
  const Settings& settings;
  World& world;
  Trace& trace;
  Progress& progress;
  Mailbox& mailbox;
  memory::HostMemory& host_memory;
  memory::DeviceMemory& device_memory;
  const std::vector<std::unique_ptr<link::Link>>& links;  ///< the best first
};

}  // namespace partita
