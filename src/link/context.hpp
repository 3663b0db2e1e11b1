// What links build on.
#pragma once

#include "core/progress.hpp"
#include "core/settings.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"
#include "memory/host.hpp"

namespace partita::link {

/// Lives as long as the runtime.
struct Context {
  const Settings& settings;
  World& world;
  memory::HostMemory& host_memory;
  memory::DeviceMemory& device_memory;
  Progress& progress;  ///< for steps that outlast the epochs that asked for them
};

}  // namespace partita::link
