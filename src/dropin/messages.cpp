// The MPI's own point-to-point calls. Buffers in GPU memory are Partita's (docs/design/gpu-aware.md). In host memory a
// blocking call is its nonblocking twin and a loop that polls both, where only the calls of the program make progress
// for Partita; everywhere else each call is two checks.
#include <mpi.h>
#include <partita/partita.h>

#include <memory>
#include <new>

#include "dropin/calling.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"
#include "dropin/staging.hpp"

namespace {

using namespace partita::dropin;

/// Waits for a send and a receive together; the status is the receive's.
int wait_for_pair(MPI_Request sending, MPI_Request receiving, MPI_Status* status) {
  const int code = wait_polling(&receiving, status);
  const int send_code = wait_polling(&sending, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS ? code : send_code;
}

template <class Receive, class Send>
int exchange(Receive receive, Send send, MPI_Status* status) {
  MPI_Request receiving = MPI_REQUEST_NULL;
  if (const int code = receive(&receiving); code != MPI_SUCCESS) return code;
  MPI_Request sending = MPI_REQUEST_NULL;
  if (const int code = send(&sending); code != MPI_SUCCESS) {
    native().Cancel(&receiving);
    wait_polling(&receiving, MPI_STATUS_IGNORE);
    return code;
  }
  return wait_for_pair(sending, receiving, status);
}

/// Waits for a message of Partita's. One whose wait fails is gone, too.
int wait_for(Partita_Request request, MPI_Status* status) {
  const int code = Partita_Wait(&request, status);
  if (request != PARTITA_REQUEST_NULL) Partita_Request_free(&request);
  return code;
}

/// A blocking call: the message that `begin` makes, to its end.
template <class Begin>
int complete(Begin begin, MPI_Status* status) {
  Partita_Request request = PARTITA_REQUEST_NULL;
  const int code = begin(&request);
  return code == MPI_SUCCESS ? wait_for(request, status) : code;
}

/// Two messages under way together. Where the second is not made the first is taken back, if it can be.
template <class First, class Second>
int complete_pair(First first, Second second, MPI_Status* first_status, MPI_Status* second_status = MPI_STATUS_IGNORE) {
  Partita_Request begun = PARTITA_REQUEST_NULL;
  if (const int code = first(&begun); code != MPI_SUCCESS) return code;
  Partita_Request other = PARTITA_REQUEST_NULL;
  if (const int code = second(&other); code != MPI_SUCCESS) {
    Partita_Cancel(&begun);
    some_may_linger();
    Partita_Request_free(&begun);
    return code;
  }
  const int code = wait_for(begun, first_status);
  const int other_code = wait_for(other, second_status);
  return code != MPI_SUCCESS ? code : other_code;
}

/// A nonblocking call: the message that `begin` makes, as a request of the MPI's.
template <class Begin>
int give(const char* call, MPI_Request* request, Begin begin) {
  const Calling calling(call);
  if (request == nullptr) return refuse_null_pointer(call, "request");
  some_may_linger();  // it may be freed while it is active
  Partita_Request made = PARTITA_REQUEST_NULL;
  const int code = begin(&made);
  return code == MPI_SUCCESS ? adopt(made, request) : code;
}

#if PARTITA_HAS_ISENDRECV
bool is_nobody(int rank) {
  return rank == MPI_PROC_NULL;
}
/// What is received may leave the end of the buffer as it is, or all of it.
constexpr bool may_be_shorter = true;
#endif

}  // namespace

extern "C" {

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define SEND(NAME, TWIN)                                                                                               \
  INTERPOSE_EXPANDED(NAMED(, NAME))(const void* buf, COUNT count, MPI_Datatype datatype, int dest, int tag,            \
                                    MPI_Comm comm) {                                                                   \
    if (is_in_gpu(buf, count, datatype)) {                                                                             \
      const Calling calling(__func__);                                                                                 \
      return complete(                                                                                                 \
          [&](Partita_Request* made) { return Partita_##TWIN(buf, count, datatype, dest, tag, comm, made); },          \
          MPI_STATUS_IGNORE);                                                                                          \
    }                                                                                                                  \
    if (!must_poll()) return native().NAMED(, NAME)(buf, count, datatype, dest, tag, comm);                            \
    return issue_and_poll(                                                                                             \
        [&](MPI_Request* request) { return native().NAMED(, TWIN)(buf, count, datatype, dest, tag, comm, request); }); \
  }                                                                                                                    \
  INTERPOSE_EXPANDED(NAMED(, TWIN))(const void* buf, COUNT count, MPI_Datatype datatype, int dest, int tag,            \
                                    MPI_Comm comm, MPI_Request* request) {                                             \
    if (!is_in_gpu(buf, count, datatype)) {                                                                            \
      return native().NAMED(, TWIN)(buf, count, datatype, dest, tag, comm, request);                                   \
    }                                                                                                                  \
    return give(__func__, request,                                                                                     \
                [&](Partita_Request* made) { return Partita_##TWIN(buf, count, datatype, dest, tag, comm, made); });   \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define COUNT int
#include "dropin/message_calls.inc"
#include "dropin/message_exchanges.inc"
#undef NAMED
#undef COUNT

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#include "dropin/message_calls.inc"
#include "dropin/message_exchanges.inc"
#undef NAMED
#undef COUNT
#endif
#undef SEND
#undef INTERPOSE_EXPANDED

}  // extern "C"
