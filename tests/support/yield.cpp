// Ranks that wait leave the cores to those that work.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/// Stands before the C library's for all of the process, the MPI among it: every fourth yield of a thread sleeps for
/// the shortest time. A yield hands the core to threads of one scheduling group only, and launchers put each rank into
/// a session, which is a group, of its own: on few cores the ranks that wait in a barrier would take as much time as
/// those that they wait for.
extern "C" int sched_yield() noexcept {
  static thread_local unsigned yields = 0;
  if (++yields % 4 != 0) return static_cast<int>(::syscall(SYS_sched_yield));
  const timespec shortest{0, 1};
  ::nanosleep(&shortest, nullptr);
  return 0;
}
