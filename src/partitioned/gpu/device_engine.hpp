// The requests with an open epoch in which kernels may leave work to the host.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "core/progress.hpp"
#include "partitioned/gpu/served_request.hpp"

namespace partita {

/// Costs nothing while none is active, and then by their number. While one is, the progress thread looks promptly: a
/// program whose threads wait for the GPU makes no progress by itself. Any thread.
class DeviceEngine {
 public:
  explicit DeviceEngine(Progress& progress) : progress_(progress) {}

  void add(ServedRequest& request);
  void remove(ServedRequest& request);
  /// A step of the progress engine: each request's.
  bool step();
  /// Calls `look` with each; none completes meanwhile.
  template <class Look>
  void for_each(Look look) {
    const std::lock_guard lock(mutex_);
    for (ServedRequest* request : active_) look(*request);
  }
  bool idle() const { return !any_.load(); }

 private:
  Progress& progress_;
  std::mutex mutex_;
  std::vector<ServedRequest*> active_;
  std::atomic<bool> any_{false};  ///< whether there is one: every poll of every program asks
};

}  // namespace partita
