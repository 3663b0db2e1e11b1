// A request with its device request, and what kernels that use it leave behind when they fail.
#pragma once

#include <fmt/format.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <stdexcept>

#include "apps/support/cuda_memory.hpp"
#include "apps/support/time_limit.hpp"

namespace bce::gpu {

/// A partitioned collective and its device request.
class DeviceRequest {
 public:
  /// `init` is the init call but for its last two arguments. `driver`: host or device. Collective; blocks until all
  /// ranks have made theirs.
  template <class Init>
  DeviceRequest(const char* driver, const Init& init) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", driver);
    init(info, &request_);
    MPI_Info_free(&info);
    MPIX_Prequest_create(&device_, request_);
    if (device_.limit_ns == 0) device_.limit_ns = partita::apps::wait_limit_ns();
  }
  ~DeviceRequest() {
    MPIX_Prequest_free(&device_);
    MPI_Request_free(&request_);
  }
  DeviceRequest(const DeviceRequest&) = delete;
  DeviceRequest& operator=(const DeviceRequest&) = delete;

  MPI_Request& request() { return request_; }
  const MPIX_Prequest& device() const { return device_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPIX_Prequest device_{};
};

/// Where kernels leave the first PARTITA_DEVICE_ERR_*.
class KernelFailure {
 public:
  int* word() const { return word_.data(); }
  /// When the kernels have ended.
  void look() const {
    int code = 0;
    PARTITA_APPS_CUDA(cudaMemcpy(&code, word_.data(), sizeof code, cudaMemcpyDeviceToHost));
    if (code == 0) return;
    throw std::runtime_error(
        fmt::format("bce: a call in a kernel returned {} (PARTITA_DEVICE_ERR_*, partita/device/prequest.h).", code));
  }

 private:
  partita::apps::DeviceMemory<int> word_{1};
};

}  // namespace bce::gpu
