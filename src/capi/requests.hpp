// What the calls that make requests, or act on them, share.
#pragma once

#include <memory>

#include "capi/report.hpp"
#include "capi/state.hpp"

namespace partita::capi {

/// Runs `body`; an Error goes to the error handler of the request's communicator.
template <class Body>
int on_request(const char* call, Partita_Request handle, Body body) noexcept {
  return guarded(call, [handle] { return comm_of(handle); }, body);
}

/// The communicator of the first request, whose error handler hears of the call's errors.
inline MPI_Comm first_comm(int count, const Partita_Request requests[]) {
  for (int i = 0; requests != nullptr && i < count; ++i) {
    if (requests[i] != PARTITA_REQUEST_NULL) return comm_of(requests[i]);
  }
  return MPI_COMM_SELF;
}

/// Errors of an init call go to the communicator it was given, if that is one.
inline MPI_Comm handler_of_argument(MPI_Comm comm) {
  return comm == MPI_COMM_NULL ? MPI_COMM_SELF : comm;
}

/// Makes the operation that `make(runtime)` gives, on `comm`, and puts its handle at `handle`.
template <class Make>
int make_request(const char* call, MPI_Comm comm, Partita_Request* handle, Make make) noexcept {
  return guarded(
      call, [comm] { return handler_of_argument(comm); },
      [&] {
        Runtime& current = runtime();
        if (handle == nullptr)
          throw Error(ErrorClass::arg, "argument request is null; expected is where to put the request");
        std::unique_ptr<Operation> operation = make(current);
        const Partita_Request made = handle_of(*operation);
        current.operations.add(std::move(operation));
        *handle = made;
      });
}

/// The request at the address that a call was given. Throws Error on null.
inline const Partita_Request& request_at(const Partita_Request* request) {
  if (request == nullptr)
    throw Error(ErrorClass::request, "argument request is null; expected is the address of a request");
  return *request;
}

/// Throws Error on a negative count, and on a missing array of so many entries.
inline void check_list(int count, const void* list, const char* name) {
  if (count < 0) throw Error(ErrorClass::count, "argument count is {}; expected is 0 or more", count);
  if (count > 0 && list == nullptr)
    throw Error(ErrorClass::arg, "argument {} is null; expected are {} entries", name, count);
}

}  // namespace partita::capi
