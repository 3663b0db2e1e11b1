// How a thread waits between two looks at a word that another core will change.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>

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

  /// As long as so many pauses a look takes, about, that lets the progress engine ask the MPI and the links.
  static constexpr int pauses_of_steps = 64;

  /// `pauses`: so many the looks since the last call were worth. Returns whether the core was given away, for how long
  /// nobody knows.
  bool pause(int pauses = 1) {
    const int most = cores_are_shared_ ? 16 : 4096;
    spins_ = std::min(spins_ + pauses, most);
    if (spins_ < most) {
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
