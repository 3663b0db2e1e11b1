// Epochs number the Start … completion rounds of a request. Flags carry them and are never reset.
#pragma once

#include <cstdint>

namespace partita {

/// Wraps around at 2^32; compare with reached(), never with <.
using Epoch = std::uint32_t;

/// Before the first Start. A flag word starts with it, so it is no epoch that data may arrive for.
inline constexpr Epoch no_epoch = 0;

/// The epoch after `epoch`. At the wrap it skips no_epoch and 1, so that odd and even epochs keep alternating
/// (slots are chosen by parity).
constexpr Epoch next(Epoch epoch) {
  return epoch == 0xffffffffu ? 2 : epoch + 1;
}

/// Whether a counter that now reads `seen` has come to `wanted`; the two are less than 2^31 apart.
constexpr bool reached(Epoch seen, Epoch wanted) {
  return static_cast<std::int32_t>(seen - wanted) >= 0;
}

}  // namespace partita
