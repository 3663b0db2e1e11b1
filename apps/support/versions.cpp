#include "apps/support/versions.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>

#include "apps/support/machine.hpp"
#include "apps/support/told_versions.hpp"

namespace partita::apps {

namespace {

/// The function `name` of the library `file`, or of what the process was linked with; null where neither is loaded.
template <class Function>
Function* find_loaded(const char* file, const char* name) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  void* const found = dlsym(library == nullptr ? RTLD_DEFAULT : library, name);
  return reinterpret_cast<Function*>(found);
}

std::string kernel() {
  utsname system{};
  return uname(&system) == 0 ? system.release : "";
}

std::string driver() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  file >> version;
  return version;
}

std::string ucx() {
  const auto version = find_loaded<const char*()>("libucp.so.0", "ucp_get_version_string");
  const std::string text = version == nullptr ? "" : version();
  return text.substr(0, text.find(' '));
}

std::string cuda_driver() {
  int number = 0;
  const auto get = find_loaded<int(int*)>("libcuda.so.1", "cuDriverGetVersion");
  return get == nullptr || get(&number) != 0 ? "" : cuda_version(number);
}

std::string nvshmem() {
  int major_number = 0;
  int minor_number = 0;
  int patch = 0;
  const auto get = find_loaded<void(int*, int*, int*)>("libnvshmem_host.so.3", "nvshmemx_vendor_get_version_info");
  if (get == nullptr) return "";
  get(&major_number, &minor_number, &patch);
  return fmt::format("{}.{}.{}", major_number, minor_number, patch);
}

}  // namespace

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::map<std::string, std::string> find_versions() {
  std::map<std::string, std::string> versions{{"kernel", kernel()},   {"driver", driver()},
                                              {"ucx", ucx()},         {"cuda_driver", cuda_driver()},
                                              {"nvshmem", nvshmem()}, {"mpi", mpi_library_version()}};
  std::erase_if(versions, [](const auto& entry) { return entry.second.empty(); });
  versions.insert(told_versions().begin(), told_versions().end());
  return versions;
}

}  // namespace partita::apps
