// The runtime behind the C API.
#pragma once

#include "partita/partita.h"
#include "partitioned/operation.hpp"
#include "runtime/runtime.hpp"

namespace partita::capi {

/// Null outside Partita_Init … Partita_Finalize.
Runtime*& current_runtime();

/// Throws Error when the runtime is not there.
Runtime& runtime();

[[noreturn]] void throw_null_request();
/// A start of it stands in a queue.
[[noreturn]] void throw_enqueued(const Operation& operation);
/// What a handle stands for. Throws Error (request) on PARTITA_REQUEST_NULL.
inline Operation& operation_of(Partita_Request handle) {
  if (handle == PARTITA_REQUEST_NULL) [[unlikely]]
    throw_null_request();
  return *reinterpret_cast<Operation*>(handle);
}
inline Partita_Request handle_of(Operation& operation) {
  return reinterpret_cast<Partita_Request>(&operation);
}

/// Whose error handler hears of a mistake with `handle`.
MPI_Comm comm_of(Partita_Request handle);

}  // namespace partita::capi
