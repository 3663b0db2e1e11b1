// Which of the measured algorithms becomes the rule.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace partita::bench::tune {

/// An algorithm displaces the built-in choice where its median is smaller by more than this part of that one's: two
/// runs of the same differ by some percent.
inline constexpr double margin = 0.05;

/// The name with the smallest median, or `built_in` where that one is within the margin. `medians_us` is not empty;
/// `built_in` may be none of them, if it cannot serve here.
std::string decide(const std::vector<std::pair<std::string, double>>& medians_us, const std::string& built_in);

}  // namespace partita::bench::tune
