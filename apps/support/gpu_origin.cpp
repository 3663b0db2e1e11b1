#include "apps/support/gpu_origin.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "apps/support/cuda_check.hpp"
#include "apps/support/shared_library.hpp"
#include "apps/support/versions.hpp"

namespace partita::apps {

namespace {

std::string bus_id() {
  int device = 0;
  std::array<char, 32> id{};
  PARTITA_APPS_CUDA(cudaGetDevice(&device));
  PARTITA_APPS_CUDA(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device));
  return id.data();
}

/// NVML, loaded when it is asked: the driver brings it, but containers may lack it.
class ManagementLibrary {
 public:
  using Device = struct NvmlDevice*;
  using Clock = int(Device, int kind, unsigned*);

  ManagementLibrary() {
    const SharedLibrary library("the clocks of the GPU", {"libnvidia-ml.so.1"});
    int (*start)() = nullptr;
    int (*find)(const char*, Device*) = nullptr;
    library.take("nvmlInit_v2", start);
    library.take("nvmlShutdown", end_);
    library.take("nvmlDeviceGetHandleByPciBusId_v2", find);
    library.take("nvmlDeviceGetClockInfo", clock);
    library.take("nvmlDeviceGetMaxClockInfo", most_clock);
    if (start() != success) throw std::runtime_error("nvmlInit_v2 failed");
    if (find(bus_id().c_str(), &device_) != success) device_ = nullptr;
  }
  ~ManagementLibrary() { end_(); }
  ManagementLibrary(const ManagementLibrary&) = delete;
  ManagementLibrary& operator=(const ManagementLibrary&) = delete;

  /// None where the library does not tell.
  std::optional<int> sm_mhz(Clock* ask) const {
    unsigned mhz = 0;
    if (device_ == nullptr || ask(device_, clock_of_sms, &mhz) != success) return std::nullopt;
    return static_cast<int>(mhz);
  }

  Clock* clock = nullptr;
  Clock* most_clock = nullptr;

 private:
  static constexpr int success = 0;
  static constexpr int clock_of_sms = 1;  // NVML_CLOCK_SM
  int (*end_)() = nullptr;
  Device device_ = nullptr;
};

}  // namespace

void describe_gpu(Machine& machine) {
  int device = 0;
  cudaDeviceProp properties{};
  PARTITA_APPS_CUDA(cudaGetDeviceCount(&machine.gpus));
  PARTITA_APPS_CUDA(cudaGetDevice(&device));
  PARTITA_APPS_CUDA(cudaGetDeviceProperties(&properties, device));
  machine.gpu = properties.name;
  machine.gpu_id = bus_id();
  int runtime = 0;
  PARTITA_APPS_CUDA(cudaRuntimeGetVersion(&runtime));
  machine.cuda_runtime = cuda_version(runtime);
}

void read_gpu_clock_rates(ClockRates& rates) {
  try {
    const ManagementLibrary library;
    rates.gpu_sm_mhz = library.sm_mhz(library.clock);
    rates.gpu_sm_most_mhz = library.sm_mhz(library.most_clock);
  } catch (const std::runtime_error&) {
    // A machine without the library measures as well as another one; its results lack the clocks.
  }
}

}  // namespace partita::apps
