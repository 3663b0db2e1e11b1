#include "core/doze.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace partita {

void Doze::nap(std::uint32_t calls_seen, std::chrono::microseconds time) {
  set_precise(false);
  const std::chrono::nanoseconds limit = time;
  rest(calls_seen, Depth::napping, &limit);
}

void Doze::nap_precisely(std::uint32_t calls_seen, std::chrono::microseconds time) {
  set_precise(true);
  const std::chrono::nanoseconds limit = time;
  rest(calls_seen, Depth::napping_precisely, &limit);
}

void Doze::rest(std::uint32_t calls_seen, Depth depth, const std::chrono::nanoseconds* time) {
  // In the one order of all: either wake_from() sees the depth, or the kernel sees that calls_ has moved on.
  depth_.store(depth);
  timespec limit{};
  if (time != nullptr) limit.tv_nsec = time->count();
  ::syscall(SYS_futex, &calls_, FUTEX_WAIT_PRIVATE, calls_seen, time == nullptr ? nullptr : &limit);
  depth_.store(Depth::awake, std::memory_order_relaxed);
}

void Doze::wake_from(Depth depth) {
  calls_.fetch_add(1);
  if (depth_.load() >= depth) ::syscall(SYS_futex, &calls_, FUTEX_WAKE_PRIVATE, 1);
}

void Doze::set_precise(bool precise) {
  if (precise == precise_) return;
  precise_ = precise;
  constexpr unsigned long least_ns = 1;
  constexpr unsigned long as_before = 0;
  ::prctl(PR_SET_TIMERSLACK, precise ? least_ns : as_before);
}

}  // namespace partita
