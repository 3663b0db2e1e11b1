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

namespace {

/// Null where none of that name serves `problem`.
const Algorithm* find_serving(const Problem& problem, std::string_view name) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->name == name && algorithm->kinds.contain(problem.kind) && algorithm->serves(problem)) {
      return algorithm;
    }
  }
  return nullptr;
}

const Algorithm* find_tuned(const Problem& problem, const Tuning* tuning) {
  const Need need{problem.kind, MovedBy::host, problem.size, tuned_bytes(problem)};
  for (const Tuning* each : {tuning, &built_in_tuning()}) {
    const Rule* rule = each == nullptr ? nullptr : each->find(need);
    const Algorithm* found = rule == nullptr ? nullptr : find_serving(problem, rule->algorithm);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

const Algorithm& choose(const Problem& problem, std::string_view name, const Tuning* tuning) {
  const Algorithm* const found = name == "auto" ? find_tuned(problem, tuning) : find_serving(problem, name);
  if (found != nullptr) return *found;
  std::vector<std::string_view> serving;
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->kinds.contain(problem.kind) && algorithm->serves(problem)) serving.push_back(algorithm->name);
  }
  throw Error(
      ErrorClass::info_value,
      "info key partita_algorithm is \"{}\"; expected is auto or, for this collective and its arguments, one of: {}",
      name, fmt::join(serving, ", "));
}

}  // namespace partita::collective
