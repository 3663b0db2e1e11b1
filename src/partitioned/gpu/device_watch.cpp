#include "partitioned/gpu/device_watch.hpp"

#include <chrono>

namespace partita {
namespace {

constexpr auto time_between_looks = std::chrono::milliseconds(250);

}  // namespace

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::add(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  if (request.device_driven()) device_driven_.push_back(&request);
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  changed_.notify_all();
}

void DeviceWatch::remove(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  std::erase(device_driven_, &request);
}

void DeviceWatch::enter_epoch(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  in_epoch_.push_back(&request);
  progress_.want_prompt();
  if (asleep_) changed_.notify_all();
}

void DeviceWatch::leave_epoch(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  std::erase(in_epoch_, &request);
  progress_.unwant_prompt();
}

bool DeviceWatch::idle() {
  const std::lock_guard lock(mutex_);
  return device_driven_.empty() && in_epoch_.empty();
}

void DeviceWatch::thread_main() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    sleep(lock);
    if (changed_.wait_for(lock, time_between_looks, [this] { return stopping_; })) return;
    hear_of_peers(lock);
    look();
  }
}

/// What ended at the other side of a device-driven request its host may have no other reason to take in.
void DeviceWatch::hear_of_peers(std::unique_lock<std::mutex>& lock) {
  if (device_driven_.empty() || !progress_.has_thread()) return;
  lock.unlock();
  progress_.poll();
  lock.lock();
}

/// Until there is something to look at. An epoch that opens meanwhile costs its Start a notification; one that opens
/// later, before the next look, costs it nothing.
void DeviceWatch::sleep(std::unique_lock<std::mutex>& lock) {
  asleep_ = true;
  changed_.wait(lock, [this] { return stopping_ || !device_driven_.empty() || !in_epoch_.empty(); });
  asleep_ = false;
}

void DeviceWatch::look() {
  KernelFindings findings(world_, device_memory_);
  for (ServedRequest* request : device_driven_) request->watch_kernels(findings);
  for (ServedRequest* request : in_epoch_) request->watch_kernels(findings);
}

}  // namespace partita
