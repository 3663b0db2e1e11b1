// In which order the contenders of a round take their turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita::bench {

/// The numbers 0 to `count` - 1 in an order drawn from `seed` for the round `epoch`. Every rank that asks for the same
/// round gets the same order, so that all of them meet in the same contender.
std::vector<std::size_t> draw_order(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace partita::bench
