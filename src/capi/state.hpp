// The runtime behind the C API.
#pragma once

#include "partita/partita.h"
#include "partitioned/request.hpp"
#include "runtime/runtime.hpp"

namespace partita::capi {

/// Null outside Partita_Init … Partita_Finalize.
Runtime*& current_runtime();

/// Throws Error when the runtime is not there.
Runtime& runtime();

[[noreturn]] void throw_null_request();
/// What a handle stands for. Throws Error (request) on PARTITA_REQUEST_NULL.
inline Request& request_of(Partita_Request handle) {
  if (handle == PARTITA_REQUEST_NULL) [[unlikely]]
    throw_null_request();
  return *reinterpret_cast<Request*>(handle);
}
inline Partita_Request handle_of(Request& request) {
  return reinterpret_cast<Partita_Request>(&request);
}

/// Whose error handler hears of a mistake with `handle`.
MPI_Comm comm_of(Partita_Request handle);

}  // namespace partita::capi
