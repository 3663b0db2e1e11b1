#include "partitioned/device_engine.hpp"

#include <algorithm>

#include "partitioned/request.hpp"

namespace partita {

void DeviceEngine::add(Request& request) {
  const std::lock_guard lock(mutex_);
  active_.push_back(&request);
}

void DeviceEngine::remove(Request& request) {
  const std::lock_guard lock(mutex_);
  std::erase(active_, &request);
}

bool DeviceEngine::step() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  for (Request* request : active_) moved |= request->device_step();
  return moved;
}

}  // namespace partita
