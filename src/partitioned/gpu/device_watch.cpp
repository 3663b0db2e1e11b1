#include "partitioned/gpu/device_watch.hpp"

#include <algorithm>
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
  requests_.push_back(&request);
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  changed_.notify_all();
}

void DeviceWatch::remove(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  std::erase(requests_, &request);
}

void DeviceWatch::enter_epoch(ServedRequest& request) noexcept {
  const std::lock_guard lock(mutex_);
  request.is_in_epoch_ = true;
  ++in_epoch_;
  progress_.want_prompt();
  if (asleep_) changed_.notify_all();
}

void DeviceWatch::leave_epoch(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  request.is_in_epoch_ = false;
  --in_epoch_;
  progress_.unwant_prompt();
}

/// Either this finds the thread asleep, or the thread finds the request when it looks whether it may sleep.
void DeviceWatch::look_again() {
  if (!asleep_.load()) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool DeviceWatch::idle() {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(requests_, [](const ServedRequest* request) {
    return request->device_driven() || (request->is_in_epoch_ && request->kernels_may_wait());
  });
}

/// Under the lock, as the next.
bool DeviceWatch::is_needed() const {
  return in_epoch_ > 0 || has_device_driven();
}

bool DeviceWatch::has_device_driven() const {
  return std::ranges::any_of(requests_, [](const ServedRequest* request) { return request->device_driven(); });
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
  if (!has_device_driven() || !progress_.has_thread()) return;
  lock.unlock();
  progress_.poll();
  lock.lock();
}

/// Until there is something to look at. An epoch that opens meanwhile costs its Start a notification; one that opens
/// later, before the next look, costs it nothing.
void DeviceWatch::sleep(std::unique_lock<std::mutex>& lock) {
  asleep_ = true;
  changed_.wait(lock, [this] { return stopping_ || is_needed(); });
  asleep_ = false;
}

void DeviceWatch::look() {
  KernelFindings findings(world_, device_memory_);
  for (ServedRequest* request : requests_) {
    if (request->device_driven() || request->is_in_epoch_) request->watch_kernels(findings);
  }
}

}  // namespace partita
