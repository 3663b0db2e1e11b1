// How the drop-in waits in a call of the MPI's that has no nonblocking twin, for ranks that cannot be met before it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "dropin/native.hpp"
#include "dropin/polling.hpp"

namespace partita::dropin {

/// Whether any thread may call the MPI at any time.
inline bool threads_may_call() {
  int level = MPI_THREAD_SINGLE;
  return native().Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

/// Returns what `call()` does, a call of the MPI's that waits for others. Where this rank must make progress for
/// Partita meanwhile, another thread makes the call; where the MPI allows no other thread, there is no such progress.
template <class Call>
int call_aside(Call call) {
  if (!must_poll() || !threads_may_call()) return call();
  std::atomic<bool> returned{false};
  int code = MPI_SUCCESS;
  std::thread caller;
  try {
    caller = std::thread([&] {
      code = call();
      returned.store(true, std::memory_order_release);
    });
  } catch (const std::system_error&) {
    return call();
  }
  for (Polling polling; !returned.load(std::memory_order_acquire);) polling.pause();
  caller.join();
  return code;
}

}  // namespace partita::dropin
