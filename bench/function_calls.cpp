#include "bench/function_calls.hpp"

#include <dlfcn.h>

#include "apps/support/own_mpi.hpp"
#include "apps/support/shared_library.hpp"
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

/// The names of the calls in a library.
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

/// The calls with these names after `prefix`.
template <class Request>
FunctionCalls<Request> take_all(const apps::SharedLibrary& library, const std::string& prefix, const Names& names) {
  FunctionCalls<Request> calls{};
  library.take(prefix + names.psend_init, calls.psend_init);
  library.take(prefix + names.precv_init, calls.precv_init);
  library.take(prefix + names.start, calls.start);
  library.take(prefix + names.pready, calls.pready);
  library.take(prefix + names.parrived, calls.parrived);
  library.take(prefix + names.wait, calls.wait);
  library.take(prefix + names.request_free, calls.request_free);
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
  const auto mpi = apps::SharedLibrary("--peer native: this MPI has no partitioned communication of its own",
                                       {apps::mpi_library()}, RTLD_NOLOAD);
  return take_all<MPI_Request>(mpi, "PMPI_", standard_names);
}

bool drop_in_is_loaded() {
  return object_of("MPI_Start") != object_of("PMPI_Get_version");
}

FunctionCalls<MPI_Request> drop_in_calls() {
  if (!drop_in_is_loaded()) {
    throw Failure(
        "--face mpi: the drop-in is not loaded, so the standard names are the MPI's own; link or preload "
        "libpartita_mpi.so, "
        "or measure --peer native.");
  }
  const auto drop_in = apps::SharedLibrary::whole_process("--face mpi: the preloaded library takes MPI_Start alone");
  return take_all<MPI_Request>(drop_in, "MPI_", standard_names);
}

FunctionCalls<void*> library_calls(const std::string& path) {
  const apps::SharedLibrary library("--peer library:" + path + " (see bench/peer_library.h)", {path}, own_scope_first);
  return take_all<void*>(library, "partita_peer_", peer_names);
}

}  // namespace partita::bench
