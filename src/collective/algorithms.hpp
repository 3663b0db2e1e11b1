// The algorithms: each writes the schedule of one rank for a problem, without communication.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "collective/problem.hpp"
#include "collective/tuning.hpp"

namespace partita::collective {

/// A set of collectives.
class Kinds {
 public:
  constexpr Kinds(std::initializer_list<Kind> kinds) noexcept {
    for (const Kind kind : kinds) bits_ |= bit_of(kind);
  }
  constexpr bool contain(Kind kind) const { return (bits_ & bit_of(kind)) != 0; }

 private:
  static constexpr std::uint32_t bit_of(Kind kind) noexcept { return std::uint32_t{1} << static_cast<int>(kind); }

  std::uint32_t bits_ = 0;
};

/// `write` and `serves` are pure functions of the problem, so that all ranks choose alike: `serves` looks at what is
/// the same on all of them only.
struct Algorithm {
  std::string_view name;
  Kinds kinds;
  /// Whether it solves this problem of one of the kinds.
  bool (*serves)(const Problem& problem);
  Schedule (*write)(const Problem& problem);
};

/// All of them, one file each in algorithms/ and one line in algorithms.inc.
std::span<const Algorithm* const> algorithms();

/// The one of this name; or if that is auto, the one of the rule of `tuning` where there is one and it serves, as it
/// may not where ⊕ does not commute; or else the one of the built-in tuning. Throws Error, which lists the names that
/// do, where none of that name serves `problem`.
const Algorithm& choose(const Problem& problem, std::string_view name = "auto", const Tuning* tuning = nullptr);

}  // namespace partita::collective
