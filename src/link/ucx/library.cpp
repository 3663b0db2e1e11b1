#include "link/ucx/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <ucs/type/status.h>
#include <uct/api/uct.h>

#include <filesystem>

namespace partita::link::ucx {
namespace {

/// The folder of the library that holds `function`.
template <class Function>
std::filesystem::path folder_of(Function* function) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code unresolved;
  const auto path = std::filesystem::canonical(info.dli_fname, unresolved);
  return unresolved ? std::filesystem::path() : path.parent_path();
}

}  // namespace

Version loaded_version() {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  unsigned release = 0;
  ucp_get_version(&major_number, &minor_number, &release);
  return {major_number, minor_number};
}

std::string to_string(Version version) {
  return fmt::format("{}.{}", version.major_number, version.minor_number);
}

std::string fault_of_loaded_library() {
  const Version version = loaded_version();
  if (version.major_number != oldest_version.major_number || version < oldest_version) {
    return fmt::format("the UCX in this process is version {}, and {} or newer is needed", to_string(version),
                       to_string(oldest_version));
  }
  const auto ucp = folder_of(&ucp_get_version);
  const auto uct = folder_of(&uct_query_components);
  const auto ucs = folder_of(&ucs_status_string);
  if (ucp != uct || ucp != ucs) {
    return fmt::format("this process has loaded parts of several UCXs: libucp from {}, libuct from {}, libucs from {}",
                       ucp.string(), uct.string(), ucs.string());
  }
  return {};
}

}  // namespace partita::link::ucx
