#include "partitioned/device_watch.hpp"

#include <chrono>

#include "partitioned/device_engine.hpp"
#include "partitioned/request.hpp"

namespace partita {
namespace {

constexpr auto time_between_looks = std::chrono::milliseconds(250);

}  // namespace

bool DeviceWatch::Findings::has_ended(int peer) {
  const auto [found, is_new] = has_ended_.try_emplace(peer, false);
  if (is_new) found->second = world_.has_ended(peer);
  return found->second;
}

const Error* DeviceWatch::Findings::fault_of(int device) {
  const auto [found, is_new] = fault_of_.try_emplace(device);
  try {
    if (is_new) device_memory_.check(device);
  } catch (const Error& error) {
    found->second.emplace(error);
  }
  return found->second ? &*found->second : nullptr;
}

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
  if (request.device_driven()) {
    device_driven_.push_back(&request);
  } else {
    ++host_driven_;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
  changed_.notify_all();
}

void DeviceWatch::remove(Request& request) {
  const std::lock_guard lock(mutex_);
  if (request.device_driven()) {
    std::erase(device_driven_, &request);
  } else {
    --host_driven_;
  }
}

bool DeviceWatch::idle() {
  const std::lock_guard lock(mutex_);
  return device_driven_.empty();
}

void DeviceWatch::thread_main() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (device_driven_.empty() && host_driven_ == 0) {
      changed_.wait(lock);
      continue;
    }
    if (!changed_.wait_for(lock, time_between_looks, [this] { return stopping_; })) look();
  }
}

void DeviceWatch::look() {
  Findings findings(world_, device_memory_);
  for (Request* request : device_driven_) request->watch_kernels(findings);
  engine_.for_each([&](Request& request) { request.watch_kernels(findings); });
}

}  // namespace partita
