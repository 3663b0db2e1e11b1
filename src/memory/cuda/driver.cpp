#include "memory/cuda/driver.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "core/error.hpp"

namespace partita::memory::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";

/// How many libraries this process has ever loaded.
unsigned long long loaded_libraries() {
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorClass::other, "the CUDA driver on this machine has no {}: Partita needs that of CUDA 12 or later",
                name);
  }
}

Driver load_driver() {
  void* library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorClass::other, "this machine has no CUDA driver: {}", ::dlerror());
  Driver driver;
#define PARTITA_TEXT(text) #text
#define PARTITA_DRIVER_LOAD(name) load(library, PARTITA_TEXT(name), driver.name);
  PARTITA_DRIVER_FUNCTIONS(PARTITA_DRIVER_LOAD)
#undef PARTITA_DRIVER_LOAD
#undef PARTITA_TEXT
  check_driver(driver, driver.cuInit(0), "cuInit");
  return driver;
}

}  // namespace

std::string text_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || driver.cuGetErrorString(result, &text) != CUDA_SUCCESS)
    return fmt::format("error {}", static_cast<int>(result));
  return fmt::format("{} ({})", text, name);
}

void check_driver(const Driver& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const auto error_class = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorClass::no_mem : ErrorClass::other;
  throw Error(error_class, "CUDA failed in {}: {}", call, text_of(driver, result));
}

const Driver& driver() {
  static const Driver driver = load_driver();
  return driver;
}

bool cuda_in_use() {
  static std::atomic<bool> in_use{false};
  static std::atomic<unsigned long long> without{0};  ///< loads up to which the driver's library was not among them
  if (in_use.load(std::memory_order_relaxed)) return true;
  const unsigned long long loads = loaded_libraries();
  if (loads == without.load(std::memory_order_relaxed)) return false;
  void* library = ::dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    without.store(loads, std::memory_order_relaxed);
    return false;
  }
  // Every call but cuInit fails while the driver is not initialised.
  const auto get_count = reinterpret_cast<decltype(&::cuDeviceGetCount)>(::dlsym(library, "cuDeviceGetCount"));
  int count = 0;
  const bool initialised = get_count != nullptr && get_count(&count) == CUDA_SUCCESS;
  ::dlclose(library);
  if (initialised) in_use.store(true, std::memory_order_relaxed);
  return initialised;
}

}  // namespace partita::memory::cuda
