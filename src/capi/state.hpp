// The runtime behind the C API.
#pragma once

#include "partita/partita.h"
#include "partitioned/recv.hpp"
#include "partitioned/send.hpp"
#include "runtime/runtime.hpp"

namespace partita::capi {

/// Null outside Partita_Init … Partita_Finalize.
Runtime*& current_runtime();

/// Throws Error when the runtime is not there.
Runtime& runtime();

/// What a handle stands for. Throws Error (request) on PARTITA_REQUEST_NULL.
Request& request_of(Partita_Request handle);
SendRequest& send_of(Partita_Request handle);
RecvRequest& recv_of(Partita_Request handle);
inline Partita_Request handle_of(Request& request) {
  return reinterpret_cast<Partita_Request>(&request);
}

/// Whose error handler hears of a mistake with `handle`.
MPI_Comm comm_of(Partita_Request handle);

}  // namespace partita::capi
