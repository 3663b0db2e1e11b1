// What transfers build on.
#pragma once

#include <memory>
#include <vector>

#include "core/mail.hpp"
#include "core/progress.hpp"
#include "core/settings.hpp"
#include "core/trace.hpp"
#include "link/link.hpp"
#include "memory/device.hpp"
#include "memory/host_blocks.hpp"
#include "transfer/holds.hpp"

namespace partita {

/// The runtime makes and owns all of it; it outlives whatever refers to it.
struct Services {
  const Settings& settings;
  int rank;  ///< this process's, in the world
  Trace& trace;
  Progress& progress;
  Mail& mail;
  memory::HostBlocks& host_blocks;
  memory::DeviceMemory& device_memory;
  const std::vector<std::unique_ptr<link::Link>>& links;  ///< the best first
  Holds& holds;
};

}  // namespace partita
