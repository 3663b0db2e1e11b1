// How a call of the drop-in waits when it may not block in the MPI.
#pragma once

#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include "dropin/native.hpp"
#include "dropin/progress.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {

/// One wait that polls: makes progress for Partita where only callers do, and soon yields the core, since the rank that
/// must act may share it.
class Polling {
 public:
  /// Between two looks.
  void pause() {
    if (progress_by_caller()) Partita_Progress(nullptr);
    if (++looks_ > looks_before_yield) ::sched_yield();
  }

 private:
  static constexpr unsigned looks_before_yield = 64;
  unsigned looks_ = 0;
};

/// Calls `look(&found)`, which returns a code of the MPI's, until it finds what it looks for or fails.
template <class Look>
int look_until_found(Look look) {
  Polling polling;
  while (true) {
    int found = 0;
    if (const int code = look(&found); code != MPI_SUCCESS || found != 0) return code;
    polling.pause();
  }
}

/// Waits for a request of the MPI's as MPI_Wait does.
inline int wait_polling(MPI_Request* request, MPI_Status* status) {
  return look_until_found([&](int* done) { return native().Test(request, done, status); });
}

/// Makes a blocking call as its nonblocking twin, which `issue(&request)` begins.
template <class Issue>
int issue_and_poll(Issue issue, MPI_Status* status = MPI_STATUS_IGNORE) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = issue(&request);
  return code == MPI_SUCCESS ? wait_polling(&request, status) : code;
}

/// Calls `look` until it returns true. While requests of ours are among what is waited for, the wait is watched as
/// theirs are; then an error can end it, which makes the active ones of them inactive.
template <class Look>
int wait_until(const Part<Partita_Request>& own, Look look) {
  if (own.count > 0) {
    return Partita_Wait_until(
        own.count, own.requests, [](void* context) { return (*static_cast<Look*>(context))() ? 1 : 0; }, &look);
  }
  for (Polling polling; !look();) polling.pause();
  return MPI_SUCCESS;
}

}  // namespace partita::dropin
