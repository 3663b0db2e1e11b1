// In which order the contenders of a round take their turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita::apps {

/// The numbers 0 to `count` - 1 in an order drawn from `seed` for the round `epoch`. Every rank that asks for the same
/// round gets the same order, so that all of them meet in the same contender.
std::vector<std::size_t> draw_order(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

/// `names` in the order that is drawn for them.
std::vector<std::string> in_drawn_order(const std::vector<std::string>& names, std::uint64_t seed, std::uint64_t epoch);

}  // namespace partita::apps
