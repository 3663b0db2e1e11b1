// Releases kernels that wait for what can no longer come, while the hosts sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/progress.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"
#include "partitioned/gpu/served_request.hpp"

namespace partita {

/// Has a thread from the first device request on. Four times a second it looks at device-driven requests, whose epochs
/// the host does not see, and at the others while an epoch is open; where there are neither it sleeps. Any thread.
class DeviceWatch {
 public:
  DeviceWatch(World& world, memory::DeviceMemory& device_memory, Progress& progress)
      : world_(world), device_memory_(device_memory), progress_(progress) {}
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// `request` has a device side from now on.
  void add(ServedRequest& request);
  /// None any more. Blocks while a look is taken.
  void remove(ServedRequest& request);
  /// The host has opened an epoch of `request`, which has a device side. While one is open the progress thread looks
  /// promptly: a host that waits for the GPU takes no steps itself.
  void enter_epoch(ServedRequest& request) noexcept;
  /// It is closed. Blocks while a look is taken.
  void leave_epoch(ServedRequest& request);
  /// A request that was added has become device-driven, by an operation that has one order with this call's for all
  /// threads: it is looked at from here on. Costs a load while the thread is awake.
  void look_again();
  /// Whether no kernel of a request can be waiting for this process: in no epoch of the host's, and no request is
  /// device-driven.
  bool idle();

 private:
  void thread_main();
  bool is_needed() const;
  bool has_device_driven() const;
  void sleep(std::unique_lock<std::mutex>& lock);
  void look();
  void hear_of_peers(std::unique_lock<std::mutex>& lock);

  World& world_;
  memory::DeviceMemory& device_memory_;
  Progress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ServedRequest*> requests_;
  int in_epoch_ = 0;  ///< so many of them are in one of the host's
  bool stopping_ = false;
  std::atomic<bool> asleep_{false};  ///< written under the lock
  std::thread thread_;
};

}  // namespace partita
