// Partitioned calls that are found by name at run time: in the MPI, in the drop-in, or in another library.
#pragma once

#include <mpi.h>

#include <string>

#include "bench/subject.hpp"

namespace partita::bench {

/// The partitioned calls on requests of type R, as function pointers.
template <class R>
struct FunctionCalls {
  using Request = R;
  using Status = MPI_Status;

  int (*psend_init)(const void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, R*);
  int (*precv_init)(void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, R*);
  int (*start)(R*);
  int (*pready)(int, R);
  int (*parrived)(R, int, int*);
  int (*wait)(R*, MPI_Status*);
  int (*request_free)(R*);

  /// The standard calls do not tell.
  LinkUsed link_used(const R&) const { return {}; }
};

// All throw std::runtime_error with a sentence where a call is missing.

/// The MPI's own partitioned calls by their profiling names.
FunctionCalls<MPI_Request> native_calls();

/// Whether a library before the MPI takes the standard names (linked first or preloaded).
bool drop_in_is_loaded();

/// The standard names as an application calls them; a drop-in must take them.
FunctionCalls<MPI_Request> drop_in_calls();

/// The calls of peer_library.h from the shared library at `path`, which stays loaded.
FunctionCalls<void*> library_calls(const std::string& path);

}  // namespace partita::bench
