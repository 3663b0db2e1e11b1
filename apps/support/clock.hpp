// The clock of what apps measure on the host.
#pragma once

#include <chrono>

namespace partita::apps {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace partita::apps
