#include "partitioned/device_watch.hpp"

#include <algorithm>
#include <chrono>

#include "partitioned/request.hpp"

namespace partita {

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::add(Request& request) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&request);
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  changed_.notify_all();
}

void DeviceWatch::remove(Request& request) {
  const std::lock_guard lock(mutex_);
  std::erase(watched_, &request);
}

bool DeviceWatch::idle() {
  const std::lock_guard lock(mutex_);
  return watched_.empty();
}

void DeviceWatch::thread_main() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (watched_.empty()) {
      changed_.wait(lock);
      continue;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(250));
    for (Request* request : watched_) request->watch_kernels();
  }
}

}  // namespace partita
