// A request that kernels use, as the thread of the host sees it that looks after those kernels.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/mail.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"

namespace partita {

/// What one look at all such requests finds out, each question asked once however many requests have it.
class KernelFindings {
 public:
  KernelFindings(const World& world, memory::DeviceMemory& device_memory)
      : world_(world), device_memory_(device_memory) {}

  /// Why kernels of the request called `name` wait for rank `peer` in vain: it has ended. Empty where it has not.
  std::optional<Error> why_ended(int peer, const std::string& name);
  /// Why GPU `device` works no longer; null where it does.
  const Error* fault_of(int device);
  /// Whether the watch's thread, which looks, may call the MPI to tell peers.
  Mail::Caller caller() const {
    return world_.thread_level() == MPI_THREAD_MULTIPLE ? Mail::Caller::may_call_the_mpi : Mail::Caller::may_not;
  }

 private:
  bool has_ended(int peer);

  const World& world_;
  memory::DeviceMemory& device_memory_;
  std::map<int, bool> has_ended_;
  std::map<int, std::optional<Error>> fault_of_;
};

class ServedRequest {
 public:
  /// Whether kernels open its epochs, so that the host does not see them.
  virtual bool device_driven() const = 0;
  /// While an epoch of the host's is open: whether kernels may wait for this process in it. Any thread.
  virtual bool kernels_may_wait() const { return true; }
  /// A look of the watch's: ends the request and releases its kernels where they can only wait in vain.
  virtual void watch_kernels(KernelFindings& findings) = 0;

 protected:
  ~ServedRequest() = default;

 private:
  friend class DeviceWatch;
  bool is_in_epoch_ = false;  ///< of the host's; under the watch's lock
};

}  // namespace partita
