// Errors that the drop-in itself finds: wrong handles.
#pragma once

#include <mpi.h>

#include <new>
#include <string>

#include "dropin/calling.hpp"

namespace partita::dropin {

/// Reports `sentence` as an error of `error_class` to the error handler for mistakes that belong to no communicator.
/// Returns the code that the call shall return, if the handler returns.
int refuse(int error_class, const std::string& sentence);

/// Refuses `handle`, which is none of Partita's, in `call`.
int refuse_foreign(const char* call, MPI_Request handle);

/// Refuses a null pointer where `call` wants to store a request.
int refuse_null_pointer(const char* call, const char* argument);

/// Says that `call` has found no memory. Needs none but that of the error's sentence.
int refuse_for_memory(const char* call);

/// Makes a call of C's whose `body(call)` may find no memory, which is an error of the call. What a handler of the
/// program's throws passes, as it would pass the MPI.
template <class Body>
int guarded(const char* call, Body body) {
  const Calling calling(call);
  try {
    return body(call);
  } catch (const std::bad_alloc&) {
    return refuse_for_memory(call);
  }
}

/// Refuses a null status, or array of statuses, where that is not `ignore`, the MPI's value for none.
int refuse_missing_status(const char* call, const char* argument, const char* ignore);

}  // namespace partita::dropin
