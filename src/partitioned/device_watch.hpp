// Releases kernels that wait for a rank that has died, while the hosts sleep.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace partita {

class Request;

/// Has a thread from the first device-driven request on, which sleeps but for a look a few times a second. Any thread.
class DeviceWatch {
 public:
  DeviceWatch() = default;
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  void add(Request& request);
  void remove(Request& request);
  /// Whether there is no device-driven request.
  bool idle();

 private:
  void thread_main();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request*> watched_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace partita
