// MPI_Wait, MPI_Test and MPI_Request_get_status (MPI-4, sections 3.7.3 and 3.7.6).
#include <fmt/format.h>
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

using namespace partita::dropin;

namespace {

/// What a call on the request behind `handle` returns; the call may have freed that, or made it good for nothing else.
/// The handle is null already where an error handler has completed the request.
int one_ended(int code, Partita_Request request, MPI_Request* handle) {
  if (request == PARTITA_REQUEST_NULL) {
    if (*handle != MPI_REQUEST_NULL) forget(handle);
  } else if (code != MPI_SUCCESS) {
    end_if_spent(handle);
  }
  return code;
}

#if PARTITA_HAS_WAIT_ENQUEUE
int refuse_enqueued(const char* call) {
  return refuse(MPI_ERR_REQUEST, fmt::format("{}: the request is partitioned, and a stream cannot wait for such a one; "
                                             "expected is a wait or test of the host",
                                             call));
}
#endif

}  // namespace

extern "C" {

INTERPOSE(Wait)(MPI_Request* request, MPI_Status* status) {
  const Calling calling(__func__);
  if (nothing_is_ours()) return native().Wait(request, status);
  if (Partita_Request found = ours(request); found != PARTITA_REQUEST_NULL) {
    const int code = Partita_Wait(&found, status);
    return one_ended(code, found, request);
  }
  return progress_by_caller() && request != nullptr ? wait_polling(request, status) : native().Wait(request, status);
}

INTERPOSE(Test)(MPI_Request* request, int* flag, MPI_Status* status) {
  const Calling calling(__func__);
  if (nothing_is_ours()) return native().Test(request, flag, status);
  if (Partita_Request found = ours(request); found != PARTITA_REQUEST_NULL) {
    const int code = Partita_Test(&found, flag, status);
    return one_ended(code, found, request);
  }
  progress_if_by_caller();
  return native().Test(request, flag, status);
}

INTERPOSE(Request_get_status)(MPI_Request request, int* flag, MPI_Status* status) {
  const Calling calling(__func__);
  if (nothing_is_ours()) return native().Request_get_status(request, flag, status);
  const Partita_Request found = ours(request);
  if (found != PARTITA_REQUEST_NULL) return Partita_Request_get_status(found, flag, status);
  progress_if_by_caller();
  return native().Request_get_status(request, flag, status);
}

#if PARTITA_HAS_REQUEST_IS_COMPLETE
INTERPOSE_EXTENSION(Request_is_complete)(MPI_Request request) {
  const Calling calling(__func__);
  const Partita_Request found = ours(request);
  if (found == PARTITA_REQUEST_NULL) return native().Request_is_complete(request);
  int flag = 0;
  return Partita_Request_get_status(found, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS ? flag : 1;
}
#endif

/* A stream of MPICH's cannot wait for requests of ours: it would complete the placeholder. */
#if PARTITA_HAS_WAIT_ENQUEUE
INTERPOSE_EXTENSION(Wait_enqueue)(MPI_Request* request, MPI_Status* status) {
  if (ours(request) != PARTITA_REQUEST_NULL) return refuse_enqueued("MPIX_Wait_enqueue");
  return native().Wait_enqueue(request, status);
}

INTERPOSE_EXTENSION(Waitall_enqueue)(int count, MPI_Request requests[], MPI_Status statuses[]) {
  for (int i = 0; requests != nullptr && i < count; ++i) {
    if (ours(requests[i]) != PARTITA_REQUEST_NULL) return refuse_enqueued("MPIX_Waitall_enqueue");
  }
  return native().Waitall_enqueue(count, requests, statuses);
}
#endif

}  // extern "C"
