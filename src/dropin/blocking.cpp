// Blocking communication where only the calls of the program make progress for Partita: a nonblocking twin and a loop
// that polls both (MPI's progress rule, MPI-4, section 2.9). Everywhere else each call is one check.
#include <mpi.h>
#include <partita/partita.h>

#include <memory>
#include <new>

#include "dropin/gathering.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/refuse.hpp"

namespace {

using namespace partita::dropin;

/// A rank decides alone how it waits in point-to-point calls. In a collective all ranks must decide alike, since the
/// twin of a collective matches only twins: on a communicator with processes of another job's start, which may run
/// without the drop-in or with another decision, the call stays the MPI's own.
enum class Taking { ALONE, COLLECTIVE };
inline bool polls(Taking part, MPI_Comm comm) {
  return part == Taking::COLLECTIVE ? progress_by_caller() && all_are_ours(comm) : must_poll();
}

template <class Issue>
int issue_and_poll(Issue issue, MPI_Status* status = MPI_STATUS_IGNORE) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = issue(&request);
  return code == MPI_SUCCESS ? wait_polling(&request, status) : code;
}

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

}  // namespace

extern "C" {

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define CALL(NAME, TWIN, PART, PARAMETERS, ...)                                                                \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                                               \
    if (!polls(Taking::PART, comm)) return native().NAMED(, NAME)(__VA_ARGS__);                                \
    return issue_and_poll([&](MPI_Request* request) { return native().NAMED(, TWIN)(__VA_ARGS__, request); }); \
  }
#define RECEIVE(NAME, TWIN, PARAMETERS, ...)                                                                           \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                                                       \
    if (!must_poll()) return native().NAMED(, NAME)(__VA_ARGS__, status);                                              \
    return issue_and_poll([&](MPI_Request* request) { return native().NAMED(, TWIN)(__VA_ARGS__, request); }, status); \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define COUNT int
#define DISPL int
#include "dropin/blocking_calls.inc"
#include "dropin/blocking_exchanges.inc"
#undef NAMED
#undef COUNT
#undef DISPL

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#define DISPL MPI_Aint
#include "dropin/blocking_calls.inc"
#include "dropin/blocking_exchanges.inc"
#undef NAMED
#undef COUNT
#undef DISPL
#endif
#undef CALL
#undef RECEIVE
#undef INTERPOSE_EXPANDED

INTERPOSE(Barrier)(MPI_Comm comm) {
  if (!polls(Taking::COLLECTIVE, comm)) return native().Barrier(comm);
  return issue_and_poll([&](MPI_Request* request) { return native().Ibarrier(comm, request); });
}

INTERPOSE(Probe)(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!must_poll()) return native().Probe(source, tag, comm, status);
  return look_until_found([&](int* found) { return native().Iprobe(source, tag, comm, found, status); });
}

INTERPOSE(Iprobe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  progress_if_by_caller();
  return native().Iprobe(source, tag, comm, flag, status);
}

INTERPOSE(Improbe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  progress_if_by_caller();
  return native().Improbe(source, tag, comm, flag, message, status);
}

INTERPOSE(Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (!must_poll()) return native().Mprobe(source, tag, comm, message, status);
  return look_until_found([&](int* found) { return native().Improbe(source, tag, comm, found, message, status); });
}

}  // extern "C"
