// How a thread rests, and how others end its rest.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace partita {

/// One thread rests; any others wake it. The thread reads calls() first, then looks whether there is anything to do,
/// and rests only if nothing was. Who gives it something to do changes what it looks at first, and wakes it then: no
/// rest begins where a call came after calls() was read, and one that has begun ends where the call is for it.
class Doze {
 public:
  std::uint32_t calls() const { return calls_.load(); }

  /// Rests until it is woken.
  void sleep(std::uint32_t calls_seen) { rest(calls_seen, Depth::asleep, nullptr); }
  /// Rests for `time` at most, less than a second.
  void nap(std::uint32_t calls_seen, std::chrono::microseconds time);
  /// The same, and the system adds microseconds to `time`, not the tens by which it likes to gather timers. Only for
  /// threads that have a core to spare, and times so short that wake_napper() need not end it.
  void nap_precisely(std::uint32_t calls_seen, std::chrono::microseconds time);

  /// Ends a sleep; costs no system call while the thread is awake or naps.
  void wake_sleeper() { wake_from(Depth::asleep); }
  /// Ends a nap too, but for a precise one, whose end is near and known; there it costs no system call.
  void wake_napper() { wake_from(Depth::napping); }
  /// Ends whatever rest.
  void wake() { wake_from(Depth::napping_precisely); }

 private:
  enum class Depth : int { awake, napping_precisely, napping, asleep };

  void rest(std::uint32_t calls_seen, Depth depth, const std::chrono::nanoseconds* time);
  void wake_from(Depth depth);
  void set_precise(bool precise);

  std::atomic<std::uint32_t> calls_{0};
  std::atomic<Depth> depth_{Depth::awake};
  bool precise_ = false;  ///< the resting thread's timers; its own
};

}  // namespace partita
