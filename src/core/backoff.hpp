// How a thread waits between two looks at a word that another core will change.
#pragma once

#include <sched.h>
#include <time.h>

namespace partita {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Spins; where ranks share cores, soon gives the core to whoever must act first.
class Backoff {
 public:
  explicit Backoff(int spare_cores) : cores_are_shared_(spare_cores < 0) {}

  /// Returns whether the core was given away, for how long nobody knows.
  bool pause() {
    if (spins_ + 1 < (cores_are_shared_ ? 16 : 4096)) {
      ++spins_;
      cpu_relax();
      return false;
    }
    // A yield gives the core to threads of one scheduling group only, and launchers put each rank into a session, which
    // is a group, of its own: now and then the thread must sleep for the other rank to run.
    if (cores_are_shared_ && ++yields_ % yields_before_nap == 0) {
      const timespec shortest{0, 1};
      ::nanosleep(&shortest, nullptr);
    } else {
      ::sched_yield();
    }
    return true;
  }

 private:
  static constexpr unsigned yields_before_nap = 8;

  bool cores_are_shared_;
  int spins_ = 0;
  unsigned yields_ = 0;
};

}  // namespace partita
