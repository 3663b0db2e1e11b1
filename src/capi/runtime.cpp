// The C face of the runtime and of exported memory.
#include <algorithm>
#include <cstring>
#include <optional>

#include "capi/report.hpp"
#include "capi/small_floats.hpp"
#include "capi/state.hpp"
#include "core/agreement.hpp"
#include "core/launch.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "core/which_mpi.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

/// Raises an error that all ranks of `world` have: one prints it, and where that ends the job nobody is earlier.
int raise_together(MPI_Comm world, const SharedError& error) {
  const int code = remember("Init", error);
  if (error.told_here()) print_if_fatal(MPI_COMM_SELF, code);
  native::Barrier(world);
  call_handler(MPI_COMM_SELF, code);
  return code;
}

/// Throws Error where no runtime can be started over `world`; ends the process where that is no communicator of the MPI
/// that this library was built for.
void check_world(MPI_Comm world) {
  end_under_another_mpi("libpartita", native::Get_library_version);
  int initialized = 0;
  int finalized = 0;
  PARTITA_MPI(Initialized(&initialized));
  PARTITA_MPI(Finalized(&finalized));
  if (initialized == 0 || finalized != 0) {
    throw Error(ErrorClass::other, "MPI is {}; expected is a call between MPI_Init and MPI_Finalize",
                finalized != 0 ? "finalised already" : "not initialised");
  }
  if (world == MPI_COMM_NULL)
    throw Error(ErrorClass::comm, "argument world is MPI_COMM_NULL; expected is a communicator");
  int inter = 0;
  if (const int code = native::Comm_test_inter(world, &inter); code != MPI_SUCCESS) {
    throw Error(ErrorClass::comm, "argument world is no communicator; the MPI says: {}", mpi_text(code));
  }
  if (inter != 0) {
    throw Error(ErrorClass::comm, "argument world is an intercommunicator; expected is an intracommunicator");
  }
}

}  // namespace

int Partita_Init(MPI_Comm world) {
  std::optional<SharedError> shared;
  const int code = guarded("Init", [&] {
    if (current_runtime() != nullptr) return;
    check_world(world);
    prepare_codes();
    try {
      current_runtime() = new Runtime(world);
      make_small_floats();
      warn_if_launched_by_another_mpi();
    } catch (const SharedError& error) {
      shared = error;
    }
  });
  return shared ? raise_together(world, *shared) : code;
}

int Partita_Initialized(int* flag) {
  return guarded("Initialized", [&] {
    check_output(flag, "flag");
    *flag = current_runtime() != nullptr ? 1 : 0;
  });
}

int Partita_Finalize(void) {
  return guarded("Finalize", [&] {
    std::unique_ptr<Runtime> ending(&runtime());
    current_runtime() = nullptr;
    ending->queues.give_up_all();
    const Operations::Leftovers left = ending->operations.free_all();
    free_small_floats();
    ending->finalize();
    ending.reset();
    if (left.incomplete > 0) {
      throw Error(ErrorClass::request,
                  "{} partitioned request{} active and not complete; expected is a Wait on each. {}", left.incomplete,
                  left.incomplete == 1 ? " is" : "s are", left.explanation);
    }
    if (left.live > 0) {
      log("{} partitioned request{} never freed; Finalize has freed {}", left.live, left.live == 1 ? " was" : "s were",
          left.live == 1 ? "it" : "them");
    }
  });
}

int Partita_Get_version(int* major, int* minor, int* patch) {
  return guarded("Get_version", [&] {
    check_output(major, "major");
    check_output(minor, "minor");
    check_output(patch, "patch");
    *major = PARTITA_VERSION_MAJOR;
    *minor = PARTITA_VERSION_MINOR;
    *patch = PARTITA_VERSION_PATCH;
  });
}

int Partita_Progress(int* pending) {
  return guarded("Progress", [&] {
    Runtime& current = runtime();
    current.progress.poll();
    if (pending != nullptr) *pending = current.progress.wanted() ? 1 : 0;
  });
}

int Partita_Error_string(int code, char* string, int* length) {
  if (string == nullptr || length == nullptr) {
    return guarded("Error_string", [] { check_output(nullptr, "string or length"); });
  }
  const std::string* sentence = sentence_of(code);
  if (sentence == nullptr) return native::Error_string(code, string, length);
  const std::size_t size = std::min<std::size_t>(sentence->size(), MPI_MAX_ERROR_STRING - 1);
  std::memcpy(string, sentence->data(), size);
  string[size] = '\0';
  *length = static_cast<int>(size);
  return MPI_SUCCESS;
}

int Partita_Raise(MPI_Comm comm, int error_class, const char* sentence) {
  const MPI_Comm heard = comm == MPI_COMM_NULL ? MPI_COMM_SELF : comm;
  if (sentence == nullptr) {
    return raise(heard, remember("Raise", Error(ErrorClass::arg, "argument sentence is null; expected is a text")));
  }
  return raise(heard, remember(error_class, sentence));
}

int Partita_Alloc(MPI_Aint size_bytes, MPI_Info, void* baseptr) {
  return guarded("Alloc", [&] {
    if (size_bytes < 0) throw Error(ErrorClass::arg, "argument size_bytes is {}; expected is 0 or more", size_bytes);
    if (baseptr == nullptr)
      throw Error(ErrorClass::arg, "argument baseptr is null; expected is where to put the address");
    *static_cast<void**>(baseptr) = runtime().allocate_memory(static_cast<std::size_t>(size_bytes));
  });
}

int Partita_Free(void* base) {
  return guarded("Free", [&] { runtime().free_memory(base); });
}

int Partita_Is_allocated(const void* base, int* flag) {
  return guarded("Is_allocated", [&] {
    check_output(flag, "flag");
    *flag = current_runtime() != nullptr && current_runtime()->is_allocated(base) ? 1 : 0;
  });
}
