// What partitioned requests build on.
#pragma once

#include "core/world.hpp"
#include "memory/host.hpp"
#include "partitioned/gpu/device_watch.hpp"
#include "partitioned/gpu/ready_notes.hpp"
#include "transfer/matcher.hpp"
#include "transfer/services.hpp"

namespace partita {

/// As Services, of which it has all.
struct RequestServices : Services {
  World& world;
  memory::HostMemory& host_memory;
  Matcher& matcher;
  DeviceWatch& device_watch;
  ReadyNotes& ready_notes;
};

}  // namespace partita
