// Waits that are loops of tests are watched, too.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/watch.hpp"

namespace partita {

class Progress;

/// Belongs to what a program asks about again and again. A look that found something costs nothing; one in vain counts,
/// and reads clocks only now and then. docs/design/runtime.md, "Watched waits", says which time counts. Any thread.
class LoopWatch {
 public:
  /// What is waited for begins anew.
  void begin() {
    if (looks_.load(std::memory_order_relaxed) != 0) is_new_.store(true, std::memory_order_relaxed);
  }

  /// A look at `waiting` was in vain; takes steps now and then, even if none are wanted. Throws WaitError as
  /// WaitLimits::check does.
  void look(const Waiting& waiting, const Settings& settings, World& world, Progress& progress) {
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed) + 1;  // one of another thread's may be lost
    looks_.store(looks, std::memory_order_relaxed);
    if (looks % looks_each_step == 0) take_steps(progress);
    if (static_cast<std::int32_t>(looks - next_look_.load(std::memory_order_relaxed)) >= 0) {
      look_at_clock(waiting, settings, world, looks);
    }
  }

 private:
  using Clock = WaitLimits::Clock;
  static constexpr std::uint32_t looks_each_step = 64;

  static void take_steps(Progress& progress);
  void look_at_clock(const Waiting& waiting, const Settings& settings, World& world, std::uint32_t looks);
  void measure(const Waiting& waiting, const Settings& settings, World& world, std::uint32_t looks);
  void start_over(const Settings& settings, Clock::time_point now);

  std::atomic<std::uint32_t> looks_{0};
  std::atomic<std::uint32_t> next_look_{0};
  std::atomic<bool> is_new_{true};
  std::atomic<bool> busy_{false};  ///< a thread has what lies below

  std::thread::id thread_;  ///< whose times are measured
  Clock::time_point last_look_{};
  std::chrono::nanoseconds last_cpu_time_{};
  std::uint32_t looks_then_ = 0;
  Clock::duration waited_{};
  Clock::duration waited_when_it_got_on_{};
  Clock::duration waited_when_asked_{};
  std::uint64_t how_far_ = 0;
  WaitLimits limits_;
};

}  // namespace partita
