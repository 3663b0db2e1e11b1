// Functions of a shared library that are found at run time.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace partita::apps {

/// `path` if the user gave one, else what the environment variable says if it says something, else the usual `names`.
inline std::vector<std::string> libraries_to_try(const std::string& path, const char* variable,
                                                 std::vector<std::string> names) {
  if (!path.empty()) return {path};
  const char* const from_environment = std::getenv(variable);
  if (from_environment != nullptr && *from_environment != '\0') return {from_environment};
  return names;
}

/// Stays loaded until the process ends. `wanted_by` begins the sentences of its errors: "--nccl", "mode nccl".
class SharedLibrary {
 public:
  /// Takes the first of `names` (paths, or names for the loader) that can be loaded, with dlopen's `more_flags`. Throws
  /// std::runtime_error where none can.
  SharedLibrary(std::string wanted_by, const std::vector<std::string>& names, int more_flags = 0)
      : wanted_by_(std::move(wanted_by)) {
    std::string reasons;
    for (const std::string& name : names) {
      library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
      if (library_ != nullptr) return;
      const char* const reason = dlerror();
      reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : name.c_str());
    }
    throw std::runtime_error(wanted_by_ + ": " + reasons + ".");
  }

  /// Everything that the process has loaded.
  static SharedLibrary whole_process(std::string wanted_by) { return SharedLibrary(std::move(wanted_by)); }

  /// Sets `function` to the function `name`. Throws std::runtime_error where there is none.
  template <class Function>
  void take(const std::string& name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(library_, name.c_str()));
    if (function == nullptr) throw std::runtime_error(wanted_by_ + ": " + name + " is missing.");
  }

 private:
  explicit SharedLibrary(std::string wanted_by) : wanted_by_(std::move(wanted_by)) {}

  std::string wanted_by_;
  void* library_ = RTLD_DEFAULT;
};

}  // namespace partita::apps
