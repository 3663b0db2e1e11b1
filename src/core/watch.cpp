#include "core/watch.hpp"

#include <algorithm>
#include <cstdint>

#include "core/log.hpp"

namespace partita {
namespace {

constexpr auto time_between_looks = std::chrono::milliseconds(5);

}  // namespace

/// As many polls as lately fitted into the time between two looks.
void Watch::plan_next_look(Clock::duration since_last) {
  const auto elapsed = std::max(since_last, Clock::duration(1));
  const std::int64_t fitting = polls_between_looks_ * Clock::duration(time_between_looks) / elapsed;
  polls_between_looks_ = static_cast<int>(std::clamp<std::int64_t>(fitting, 1, most_polls));
}

void Watch::look_at_clock(const Waiting& waiting) {
  const auto now = Clock::now();
  if (last_look_ != Clock::time_point{}) plan_next_look(now - last_look_);
  last_look_ = now;
  polls_to_look_ = polls_between_looks_;
  if (begin_ == Clock::time_point{}) {
    begin_ = now;
    return limits_.begin(settings_, now);
  }
  limits_.check(settings_, world_, waiting, now, std::chrono::duration<double>(now - begin_).count());
}

void WaitLimits::begin(const Settings& settings, Clock::time_point now) {
  next_probe_ = now + std::chrono::seconds(1);
  next_warning_s_ = settings.warn_after_s;
}

void WaitLimits::check(const Settings& settings, World& world, const Waiting& waiting, Clock::time_point now,
                       double waited_s) {
  if (now >= next_probe_) {
    next_probe_ = now + std::chrono::seconds(1);
    const int peer = waiting.waits_for();
    if (world.has_ended(peer)) {
      throw WaitError(ErrorClass::other, "rank {} has ended (its process is gone) while this rank waited for it. {}",
                      peer, waiting.explain());
    }
  }
  if (settings.warn_after_s > 0 && waited_s >= next_warning_s_) {
    next_warning_s_ *= 2;
    log("has waited for {:.0f} s. {}", waited_s, waiting.explain());
  }
  if (settings.timeout_s > 0 && waited_s >= settings.timeout_s) {
    throw WaitError(ErrorClass::other, "the wait took longer than {} s (PARTITA_TIMEOUT). {}", settings.timeout_s,
                    waiting.explain());
  }
}

}  // namespace partita
