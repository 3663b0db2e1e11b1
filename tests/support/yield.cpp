// Ranks that wait leave the cores to those that work.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr std::int64_t longest_sleep_ns = 500'000, long_wait_ns = 1'000'000;
/// Who comes back sooner has done nothing but look.
constexpr std::int64_t look_ns = 50'000;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// One thread's waits, each a row of yields with nothing but looks in between.
class Waits {
 public:
  void yield() {
    const std::int64_t now = now_ns();
    if (now - looked_ns_ > look_ns) since_ns_ = now;
    const std::int64_t waited_ns = now - since_ns_;
    if (waited_ns < long_wait_ns && ++yields_ % 4 != 0) {
      static_cast<void>(::syscall(SYS_sched_yield));
    } else {
      // Whoever has waited for long will hardly be served at once: sleep for a small part of that time.
      const timespec sleep{0, std::clamp(waited_ns / 32, std::int64_t{1}, longest_sleep_ns)};
      ::nanosleep(&sleep, nullptr);
    }
    looked_ns_ = now_ns();
  }

 private:
  std::int64_t since_ns_ = 0;   ///< the first yield of the wait
  std::int64_t looked_ns_ = 0;  ///< the end of the last
  unsigned yields_ = 0;         ///< of all waits: where looks are slow, each yield begins one
};

}  // namespace

/// Stands before the C library's for all of the process, the MPI among it: every fourth yield of a thread sleeps, and
/// each one of a long wait. A yield hands the core to threads of one scheduling group only, and launchers put each rank
/// into a session, which is a group, of its own: on few cores the ranks that wait in a barrier would take as much time
/// as those that they wait for.
extern "C" int sched_yield() noexcept {
  static thread_local Waits waits;
  waits.yield();
  return 0;
}
