// Lines that tell a person that a long run goes on.
#pragma once

#include <chrono>
#include <string_view>

namespace partita::apps {

/// Lets one line pass every two seconds, and none in the first two.
class Progress {
 public:
  /// `speaks` on one rank only.
  explicit Progress(bool speaks) : speaks_(speaks), last_(Clock::now()) {}

  /// Whether a line is due now; if so the next is due two seconds later.
  bool due();
  /// Writes a line about `what` to standard error, beside the results on standard output.
  static void say(std::string_view what, std::string_view state);

 private:
  using Clock = std::chrono::steady_clock;
  bool speaks_;
  Clock::time_point last_;
};

}  // namespace partita::apps
