// The algorithms: each writes the schedule of one rank for a problem, without communication.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collective/problem.hpp"

namespace partita::collective {

/// `write` and `serves` are pure functions of the problem, so that all ranks choose alike: `serves` looks at what is the
/// same on all of them only.
struct Algorithm {
  std::string_view name;
  std::vector<Kind> kinds;
  /// Whether it solves this problem of one of the kinds.
  bool (*serves)(const Problem& problem);
  Schedule (*write)(const Problem& problem);
};

/// All of them, one file each in algorithms/ and one line in algorithms.inc; of those that serve a kind, the preferred
/// first.
std::span<const Algorithm* const> algorithms();

/// The first that serves `problem`, or the one of this name. Throws Error, which lists the names that do, where none
/// of that name serves it.
const Algorithm& choose(const Problem& problem, std::string_view name = "auto");

}  // namespace partita::collective
