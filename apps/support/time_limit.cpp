#include "apps/support/time_limit.hpp"

#include <cstdlib>

namespace partita::apps {

std::uint64_t wait_limit_ns() {
  constexpr double without_setting_s = 60.0;
  const char* const text = std::getenv("PARTITA_TIMEOUT");
  const double set_s = text != nullptr ? std::strtod(text, nullptr) : 0.0;
  return static_cast<std::uint64_t>((set_s > 0.0 ? set_s : without_setting_s) * 1e9);
}

}  // namespace partita::apps
