// Blocking collectives and probes where only the calls of the program make progress for Partita: a nonblocking twin and
// a loop that polls both (MPI's progress rule, MPI-4, section 2.9). Everywhere else each call is two checks, unless the
// job is GPU-aware.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/gathering.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/refuse.hpp"
#include "dropin/staging.hpp"

namespace {

using namespace partita::dropin;

/// All ranks decide alike, since the twin of a collective matches only twins: on a communicator with processes of
/// another job's start, which may run without the drop-in or with another decision, the call stays the MPI's own.
inline bool polls(MPI_Comm comm) {
  return progress_by_caller() && all_are_ours(comm);
}

}  // namespace

extern "C" {

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define CALL(NAME, TWIN, BUFFERS, PARAMETERS, ...)                                                               \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                                                 \
    const auto make = [&] {                                                                                      \
      if (!polls(comm)) return native().NAMED(, NAME)(__VA_ARGS__);                                              \
      return issue_and_poll([&](MPI_Request* request) { return native().NAMED(, TWIN)(__VA_ARGS__, request); }); \
    };                                                                                                           \
    if (!takes_gpu_memory()) return make();                                                                      \
    return guarded(__func__, [&](const char*) {                                                                  \
      Staging stage(comm);                                                                                       \
      BUFFERS;                                                                                                   \
      return stage.run(make);                                                                                    \
    });                                                                                                          \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define COUNT int
#define DISPL int
#include "dropin/blocking_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#define DISPL MPI_Aint
#include "dropin/blocking_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL
#endif
#undef CALL
#undef INTERPOSE_EXPANDED

INTERPOSE(Barrier)(MPI_Comm comm) {
  if (!polls(comm)) return native().Barrier(comm);
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
