#include "partitioned/gpu/device_engine.hpp"

#include <algorithm>

#include "core/current_error.hpp"

namespace partita {

void DeviceEngine::add(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  active_.push_back(&request);
  any_.store(true);  // in the one order of all: see DeviceWatch::sleep
  progress_.want_prompt();
}

void DeviceEngine::remove(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  if (std::erase(active_, &request) > 0) progress_.unwant_prompt();
  any_.store(!active_.empty(), std::memory_order_relaxed);
}

bool DeviceEngine::step() {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  bool moved = false;
  for (ServedRequest* request : active_) {
    if (request->failed()) continue;
    try {
      moved |= request->device_step();
    } catch (const std::exception&) {
      request->fail_kernels(current_error());  // the others go on
    }
  }
  return moved;
}

}  // namespace partita
