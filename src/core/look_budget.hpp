// How much of what is many a step of the progress engine looks at.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace partita {

/// A rank that waits takes its next step at once, and the engine's thread sleeps for up to a millisecond: so a step
/// after a pause looks at more, and no step takes a time that grows with what there is. One thread at a time.
class LookBudget {
 public:
  static constexpr std::size_t least = 2;
  static constexpr std::size_t most = 100;
  static constexpr std::chrono::microseconds time_of_one{10};

  /// So many may be looked at now.
  std::size_t now() {
    const Clock::time_point time = Clock::now();
    const auto by_time = static_cast<std::size_t>((time - last_) / time_of_one);
    last_ = time;
    return std::clamp(by_time, least, most);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point last_{};
};

}  // namespace partita
