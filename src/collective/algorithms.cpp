#include "collective/algorithms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "core/error.hpp"

namespace partita::collective {

#define ALGORITHM(NAME) extern const Algorithm NAME;
#include "collective/algorithms.inc"
#undef ALGORITHM

std::span<const Algorithm* const> algorithms() {
#define ALGORITHM(NAME) &(NAME),
  static const std::array all = {
#include "collective/algorithms.inc"
  };
#undef ALGORITHM
  return all;
}

const Algorithm& choose(const Problem& problem, std::string_view name) {
  std::vector<std::string_view> serving;
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->kinds.contain(problem.kind) || !algorithm->serves(problem)) continue;
    if (name == "auto" || name == algorithm->name) return *algorithm;
    serving.push_back(algorithm->name);
  }
  throw Error(
      ErrorClass::info_value,
      "info key partita_algorithm is \"{}\"; expected is auto or, for this collective and its arguments, one of: {}",
      name, fmt::join(serving, ", "));
}

}  // namespace partita::collective
