#include "bench/function_calls.hpp"

#include <dlfcn.h>

#include "bench/failure.hpp"

namespace partita::bench {

namespace {

/// A peer library's own MPI calls reach the MPI and not the drop-in. The address sanitizer ends a process that asks for
/// this.
#ifdef __SANITIZE_ADDRESS__
constexpr int own_scope_first = 0;
#else
constexpr int own_scope_first = RTLD_DEEPBIND;
#endif

/// Sets `function` to the symbol `prefix` + `name`; false if `library` lacks it.
template <class Function>
bool find(void* library, const std::string& prefix, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, (prefix + name).c_str()));
  return function != nullptr;
}

/// The names after `prefix`; sets `missing` to the first one that `library` lacks.
struct Names {
  const char* psend_init;
  const char* precv_init;
  const char* start;
  const char* pready;
  const char* parrived;
  const char* wait;
  const char* request_free;
};
constexpr Names standard_names{"Psend_init", "Precv_init", "Start", "Pready", "Parrived", "Wait", "Request_free"};
constexpr Names peer_names{"psend_init", "precv_init", "start", "pready", "parrived", "wait", "request_free"};

template <class Request>
FunctionCalls<Request> find_all(void* library, const std::string& prefix, const Names& names, std::string& missing) {
  FunctionCalls<Request> calls{};
  const auto take = [&](const char* name, auto*& function) {
    if (!find(library, prefix, name, function) && missing.empty()) missing = prefix + name;
  };
  take(names.psend_init, calls.psend_init);
  take(names.precv_init, calls.precv_init);
  take(names.start, calls.start);
  take(names.pready, calls.pready);
  take(names.parrived, calls.parrived);
  take(names.wait, calls.wait);
  take(names.request_free, calls.request_free);
  return calls;
}

/// Which loaded object `symbol` comes from; null if there is no such symbol.
const void* object_of(const char* symbol) {
  void* address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return nullptr;
  return info.dli_fbase;
}

}  // namespace

FunctionCalls<MPI_Request> native_calls() {
  std::string missing;
  const auto calls = find_all<MPI_Request>(RTLD_DEFAULT, "PMPI_", standard_names, missing);
  if (!missing.empty()) {
    throw Failure("--peer native: this MPI has no partitioned communication of its own ({} is missing).", missing);
  }
  return calls;
}

bool drop_in_is_loaded() {
  return object_of("MPI_Start") != object_of("PMPI_Start");
}

FunctionCalls<MPI_Request> drop_in_calls() {
  if (!drop_in_is_loaded()) {
    throw Failure(
        "--face mpi: the drop-in is not loaded, so the standard names are the MPI's own; link or preload "
        "libpartita_mpi.so, "
        "or measure --peer native.");
  }
  std::string missing;
  const auto calls = find_all<MPI_Request>(RTLD_DEFAULT, "MPI_", standard_names, missing);
  if (!missing.empty()) throw Failure("--face mpi: the preloaded library takes MPI_Start but lacks {}.", missing);
  return calls;
}

FunctionCalls<void*> library_calls(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | own_scope_first);
  if (library == nullptr) throw Failure("--peer library:{}: cannot be loaded: {}.", path, dlerror());
  std::string missing;
  const auto calls = find_all<void*>(library, "partita_peer_", peer_names, missing);
  if (!missing.empty()) throw Failure("--peer library:{}: lacks {} (see bench/peer_library.h).", path, missing);
  return calls;
}

}  // namespace partita::bench
