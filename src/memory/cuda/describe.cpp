// The GPUs of this process, as text.
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "memory/cuda/check.hpp"
#include "memory/device.hpp"

namespace partita::memory {
namespace {

constexpr double gib_bytes = 1024.0 * 1024.0 * 1024.0;

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  PARTITA_CU(cuDeviceGetAttribute, &value, which, device);
  return value;
}

std::string list_of(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

std::string peers_of(int device, int count) {
  std::vector<int> reached;
  for (int other = 0; other < count; ++other) {
    int can = 0;
    if (other != device) PARTITA_CU(cuDeviceCanAccessPeer, &can, device, other);
    if (can != 0) reached.push_back(other);
  }
  if (count == 1) return "";
  return reached.empty() ? ", reaches no other" : fmt::format(", reaches {}", list_of(reached));
}

std::string gpu(int device, int count) {
  CUdevice handle = 0;
  char name[128] = "";
  std::size_t size_bytes = 0;
  PARTITA_CU(cuDeviceGet, &handle, device);
  PARTITA_CU(cuDeviceGetName, name, static_cast<int>(sizeof name), handle);
  PARTITA_CU(cuDeviceTotalMem, &size_bytes, handle);
  std::vector<std::string> lacking;
  if (attribute(handle, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) == 0) lacking.emplace_back("CUDA IPC");
  if (attribute(handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0)
    lacking.emplace_back("memory descriptors");
  if (attribute(handle, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) == 0) lacking.emplace_back("host registration");
  return fmt::format("GPU {}: {}, sm_{}{}, {:.1f} GiB{}{}", device, name,
                     attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                     attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                     static_cast<double>(size_bytes) / gib_bytes, peers_of(handle, count),
                     lacking.empty() ? "" : fmt::format("; without {}", fmt::join(lacking, ", ")));
}

}  // namespace

std::string describe_gpus() {
  try {
    int version = 0;
    int count = 0;
    PARTITA_CU(cuDriverGetVersion, &version);
    PARTITA_CU(cuDeviceGetCount, &count);
    std::string text = fmt::format("CUDA driver {}.{}", version / 1000, version % 1000 / 10);
    for (int device = 0; device < count; ++device) text += "\n" + gpu(device, count);
    return text;
  } catch (const Error& error) {
    return fmt::format("no GPUs: {}", error.sentence());
  }
}

}  // namespace partita::memory
