#include "partitioned/listed.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace partita {

std::string listed(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t most = 16;
  if (numbers.empty()) return {};
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(std::min(numbers.size(), most));
  return fmt::format(" ({}{})", fmt::join(numbers.begin(), end, ", "), numbers.size() > most ? ", …" : "");
}

}  // namespace partita
