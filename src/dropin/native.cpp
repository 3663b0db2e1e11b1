#include "dropin/native.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "capi/native.hpp"
#include "core/which_mpi.hpp"
#include "dropin/calling.hpp"

namespace partita::dropin::internal {
namespace {

bool is_of_this_library(void* function) {
  Dl_info own{};
  Dl_info other{};
  return ::dladdr(&native_is_found, &own) != 0 && ::dladdr(function, &other) != 0 && own.dli_fbase == other.dli_fbase;
}

/// What stands behind this library under `name`; the MPI may also stand before it, linked in the wrong order.
void* find(const char* name) {
  if (void* const behind = ::dlsym(RTLD_NEXT, name); behind != nullptr) return behind;
  void* const first = ::dlsym(RTLD_DEFAULT, name);
  return first == nullptr || is_of_this_library(first) ? nullptr : first;
}

template <class Function>
void take(Function& function, const char* name) {
  void* const found = find(name);
  if (found == nullptr) {
    const std::string line = fmt::format(
        "[partita] libpartita_mpi finds no {} in this process; expected is the MPI that it was built for\n", name);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    std::_Exit(EXIT_FAILURE);
  }
  function = reinterpret_cast<Function>(found);
}

}  // namespace

void find_native() {
  static std::once_flag once;
  std::call_once(once, [] {
    decltype(&PMPI_Get_library_version) get_library_version = nullptr;
    take(get_library_version, "PMPI_Get_library_version");
    end_under_another_mpi("libpartita_mpi", get_library_version);
#define NATIVE_NAMED(NAME) take(native_calls.NAME, "PMPI_" #NAME);
#define NATIVE(NAME) NATIVE_NAMED(NAME)
#define EXTENSION(NAME) take(native_calls.NAME, "PMPIX_" #NAME);
#include "dropin/native_calls.inc"
#undef NATIVE_NAMED
#undef NATIVE
#undef EXTENSION
    Partita_use_native(find, [] { return Calling::current(); });
    native_is_found.store(true, std::memory_order_release);
  });
}

}  // namespace partita::dropin::internal
