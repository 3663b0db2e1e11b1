// What partitioned requests build on.
#pragma once

#include "transfer/services.hpp"

namespace partita {

class DeferredList;
class DeviceEngine;
class DeviceWatch;
class Matcher;

/// As Services, of which it has all.
struct RequestServices : Services {
  Matcher& matcher;
  DeferredList& deferred;
  DeviceEngine& engine;
  DeviceWatch& device_watch;
};

}  // namespace partita
