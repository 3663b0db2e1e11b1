#include "core/loop_watch.hpp"

#include <algorithm>
#include <ctime>

#include "core/progress.hpp"

namespace partita {
namespace {

using namespace std::chrono_literals;

/// Between looks at the clock, about, and the looks in it at most.
constexpr auto time_between_clock_looks = 5ms;
constexpr std::uint32_t fewest_looks = 16;
constexpr std::uint32_t most_looks = 1024;

/// A program that computes longer than the first of these from one look to the next does not wait, unless that is less
/// than this part of the time and less than the second: a thread that sleeps, and is woken on a busy machine, needs
/// some time for that alone.
constexpr auto most_cpu_time_a_look = 100us;
constexpr int most_cpu_part = 20;
constexpr auto most_cpu_time_to_wake_up = 2ms;
/// Nor does one that looks less often.
constexpr auto longest_gap = 1s;

/// A thread that has not looked for so long leaves the measuring to another one.
constexpr auto patience = 50ms;

/// How long to wait until it is asked again how far it has come.
constexpr auto time_between_questions = 250ms;

std::chrono::nanoseconds cpu_time_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

void LoopWatch::take_steps(Progress& progress) {
  progress.poll();
}

void LoopWatch::look_at_clock(const Waiting& waiting, const Settings& settings, World& world, std::uint32_t looks) {
  if (busy_.exchange(true, std::memory_order_acquire)) return;
  struct Release {
    std::atomic<bool>& busy;
    ~Release() { busy.store(false, std::memory_order_release); }
  } const release{busy_};
  measure(waiting, settings, world, looks);
}

void LoopWatch::start_over(const Settings& settings, Clock::time_point now) {
  thread_ = {};
  waited_ = waited_when_it_got_on_ = waited_when_asked_ = {};
  how_far_ = 0;
  limits_.begin(settings, now);
}

void LoopWatch::measure(const Waiting& waiting, const Settings& settings, World& world, std::uint32_t looks) {
  const auto now = Clock::now();
  if (is_new_.exchange(false, std::memory_order_relaxed)) start_over(settings, now);
  const auto me = std::this_thread::get_id();
  const bool mine = thread_ == me;
  if (!mine && thread_ != std::thread::id() && now - last_look_ < patience) {
    next_look_.store(looks + fewest_looks, std::memory_order_relaxed);
    return;
  }
  const auto cpu_time = cpu_time_of_this_thread();
  std::uint32_t until_next = fewest_looks;
  if (mine && looks != looks_then_) {
    const std::uint32_t since = looks - looks_then_;
    const auto elapsed = now - last_look_;
    const auto computed = cpu_time - last_cpu_time_;
    const bool computes = computed > since * most_cpu_time_a_look &&
                          (computed > elapsed / most_cpu_part || computed > since * most_cpu_time_to_wake_up);
    if (!computes && elapsed <= since * longest_gap) waited_ += elapsed;
    const auto fitting = since * Clock::duration(time_between_clock_looks) / std::max(elapsed, Clock::duration(1));
    until_next = static_cast<std::uint32_t>(std::clamp<std::int64_t>(fitting, 1, most_looks));
  }
  thread_ = me;
  last_look_ = now;
  last_cpu_time_ = cpu_time;
  looks_then_ = looks;
  next_look_.store(looks + until_next, std::memory_order_relaxed);

  const auto in_a_row = [this] { return std::chrono::duration<double>(waited_ - waited_when_it_got_on_).count(); };
  const bool runs_out = settings.timeout_s > 0 && in_a_row() >= settings.timeout_s;
  if (runs_out || waited_ - waited_when_asked_ >= time_between_questions) {
    waited_when_asked_ = waited_;
    if (const std::uint64_t how_far = waiting.how_far(); how_far != how_far_) {
      how_far_ = how_far;
      waited_when_it_got_on_ = waited_;
      limits_.begin(settings, now);
    }
  }
  limits_.check(settings, world, waiting, now, in_a_row());
}

}  // namespace partita
