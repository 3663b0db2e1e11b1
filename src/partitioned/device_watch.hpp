// Releases kernels that wait for what can no longer come, while the hosts sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/progress.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"

namespace partita {

class DeviceEngine;
class Request;

/// Has a thread from the first device request on. Four times a second it looks at device-driven requests, whose epochs
/// the host does not see, and at the others while an epoch is open; where there are neither it sleeps. Any thread.
class DeviceWatch {
 public:
  DeviceWatch(World& world, memory::DeviceMemory& device_memory, DeviceEngine& engine, Progress& progress)
      : world_(world), device_memory_(device_memory), engine_(engine), progress_(progress) {}
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// `request` has a device side from now on.
  void add(Request& request);
  /// None any more. Blocks while a look is taken.
  void remove(Request& request);
  /// A request has come to the engine.
  void wake();
  /// Whether there is no device-driven request with a device side.
  bool idle();

  /// What one look finds out, each question asked once however many requests have it.
  class Findings {
   public:
    Findings(const World& world, memory::DeviceMemory& device_memory) : world_(world), device_memory_(device_memory) {}

    bool has_ended(int peer);
    /// Why GPU `device` works no longer; null where it does.
    const Error* fault_of(int device);

   private:
    const World& world_;
    memory::DeviceMemory& device_memory_;
    std::map<int, bool> has_ended_;
    std::map<int, std::optional<Error>> fault_of_;
  };

 private:
  void thread_main();
  void sleep(std::unique_lock<std::mutex>& lock);
  void look();
  void hear_of_peers(std::unique_lock<std::mutex>& lock);

  World& world_;
  memory::DeviceMemory& device_memory_;
  DeviceEngine& engine_;
  Progress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request*> device_driven_;
  bool stopping_ = false;
  std::atomic<bool> asleep_{false};
  std::thread thread_;
};

}  // namespace partita
