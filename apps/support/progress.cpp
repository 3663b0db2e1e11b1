#include "apps/support/progress.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace partita::apps {

bool Progress::due() {
  constexpr std::chrono::seconds pause{2};
  if (!speaks_) return false;
  const auto now = Clock::now();
  if (now - last_ < pause) return false;
  last_ = now;
  return true;
}

void Progress::say(std::string_view what, std::string_view state) {
  fmt::print(stderr, "  {:<17} {}\n", what, state);
  std::fflush(stderr);
}

}  // namespace partita::apps
