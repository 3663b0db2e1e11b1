// Which cells live at the start: the same for all divisions of the board, on hosts and on GPUs.
#pragma once

#include <cstdint>

#include "apps/support/mixed.hpp"

namespace life {

/// Whether the cell at a place of the whole board does, where so many of a hundred shall.
constexpr bool lives_at_start(std::uint64_t seed, int density, int row, int column) {
  const std::uint64_t place = (static_cast<std::uint64_t>(row) << 32U) | static_cast<std::uint64_t>(column);
  return partita::apps::mixed(partita::apps::mixed(seed) ^ place) % 100 < static_cast<std::uint64_t>(density);
}

}  // namespace life
