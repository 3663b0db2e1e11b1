// What the calls that wait for an array of requests share.
#pragma once

#include "capi/state.hpp"

namespace partita::capi {

/// Whether `handle` stands for a request between its start and the call that completes it.
inline bool is_open(Partita_Request handle) {
  return handle != PARTITA_REQUEST_NULL && request_of(handle).open();
}

/// Throws Error on a negative count, and on a missing array.
inline void check_count(int count, const void* requests) {
  if (count < 0) throw Error(ErrorClass::count, "argument count is {}; expected is 0 or more", count);
  if (count > 0 && requests == nullptr)
    throw Error(ErrorClass::arg, "argument requests is null; expected are {} requests", count);
}

/// Throws Error (arg) on a status that is neither given nor ignored: MPI_STATUS_IGNORE is null in some MPIs only.
inline void check_status(const MPI_Status* status) {
  if (status == nullptr && status != MPI_STATUS_IGNORE)
    throw Error(ErrorClass::arg, "argument status is null; expected is a status or MPI_STATUS_IGNORE");
}
inline void check_statuses(int count, const MPI_Status statuses[]) {
  if (count > 0 && statuses == nullptr && statuses != MPI_STATUSES_IGNORE)
    throw Error(ErrorClass::arg, "argument statuses is null; expected are {} statuses or MPI_STATUSES_IGNORE", count);
}

/// The communicator of the first request, whose error handler hears of the call's errors.
inline MPI_Comm first_comm(int count, const Partita_Request requests[]) {
  for (int i = 0; requests != nullptr && i < count; ++i) {
    if (requests[i] != PARTITA_REQUEST_NULL) return comm_of(requests[i]);
  }
  return MPI_COMM_SELF;
}

/// Blocks until `done` returns true, explained by `waiting`. When the wait itself fails, the open ones of `requests`
/// are given up, so that they can be freed.
template <class Done>
void wait_for(int count, const Partita_Request requests[], const Waiting& waiting, Done done) {
  try {
    runtime().wait_until(waiting, done);
  } catch (const WaitError&) {
    for (int i = 0; i < count; ++i) {
      if (is_open(requests[i])) request_of(requests[i]).abandon();
    }
    throw;
  }
}

}  // namespace partita::capi
