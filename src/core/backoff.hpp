// How a thread waits between two looks at a word that another core will change.
#pragma once

#include <sched.h>

namespace partita {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Spins; where ranks share cores, soon yields the core to whoever must act first.
class Backoff {
 public:
  explicit Backoff(int spare_cores) : spins_before_yield_(spare_cores < 0 ? 16 : 4096) {}

  /// Returns whether the core was given away, for how long nobody knows.
  bool pause() {
    if (spins_ + 1 < spins_before_yield_) {
      ++spins_;
      cpu_relax();
      return false;
    }
    ::sched_yield();
    return true;
  }

 private:
  int spins_before_yield_;
  int spins_ = 0;
};

}  // namespace partita
