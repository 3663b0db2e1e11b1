#include "bench/tune/decision.hpp"

#include <algorithm>

namespace partita::bench::tune {

std::string decide(const std::vector<std::pair<std::string, double>>& medians_us, const std::string& built_in) {
  using Entry = std::pair<std::string, double>;
  const auto fastest = std::ranges::min_element(medians_us, {}, &Entry::second);
  const auto usual = std::ranges::find(medians_us, built_in, &Entry::first);
  const bool is_close = usual != medians_us.end() && fastest->second >= usual->second * (1 - margin);
  return is_close ? usual->first : fastest->first;
}

}  // namespace partita::bench::tune
