// Tuning files: what `partita tune` writes and PARTITA_TUNING names. docs/design/collectives.md has their schema.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/tuning.hpp"

namespace partita::collective {

/// A rule, and why: the median of each algorithm that was tried. The library goes by the rule alone.
struct MeasuredRule {
  Rule rule;
  std::vector<std::pair<std::string, double>> medians_us;
};

/// The names of all algorithms that may move this collective among so many ranks, its operation commuting.
std::vector<std::string_view> algorithm_names(Kind kind, MovedBy by, int ranks);

/// Reads the text of the file `file`. Throws Error, a sentence with the line and what is expected there: also where no
/// algorithm of a name is known for a collective or one cannot serve so many ranks, or where two rules are about the
/// same.
Tuning read_tuning(std::string_view file, std::string_view text);

/// The text of a file; `notes` are lines for its readers.
std::string write_tuning(std::span<const std::string> notes, std::span<const MeasuredRule> rules);

}  // namespace partita::collective
