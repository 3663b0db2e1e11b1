// Who makes progress for Partita: a thread, or the program's calls alone.
#pragma once

#include <partita/partita.h>

#include <atomic>

#include "dropin/requests.hpp"

namespace partita::dropin {

/// Whether the user wants nobody but the program's calls to make progress for Partita (PARTITA_PROGRESS=caller).
bool caller_progress_is_set();

namespace internal {
inline constinit std::atomic<bool> progress_by_caller{false};
inline constinit std::atomic<bool> may_linger{false};
}  // namespace internal

/// Whether nobody but the calls of this program makes progress for Partita: the MPI gave less than MPI_THREAD_MULTIPLE,
/// or PARTITA_PROGRESS=caller. The same on all ranks of the job. Blocking collectives then run as their nonblocking
/// twins on every rank, since the standard lets a blocking one match only blocking ones.
inline bool progress_by_caller() {
  return internal::progress_by_caller.load(std::memory_order_relaxed);
}

/// Whether nothing of Partita's can be under way: there is no request of its own, and none was freed whose messages may
/// still have to leave.
inline bool nothing_is_ours() {
  return request_table().empty() && !internal::may_linger.load(std::memory_order_relaxed);
}
/// There will be such requests.
inline void some_may_linger() {
  internal::may_linger.store(true, std::memory_order_relaxed);
}

/// Whether a blocking call on this rank must make progress for Partita while it waits.
inline bool must_poll() {
  return !nothing_is_ours() && progress_by_caller();
}

/// For calls that look once: progress for Partita where only callers make it, so that a loop of looks ends.
inline void progress_if_by_caller() {
  if (must_poll()) Partita_Progress(nullptr);
}

}  // namespace partita::dropin
