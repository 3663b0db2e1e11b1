// Epochs number the Start … completion rounds of a request. Flags carry them and are never reset. One arithmetic for
// the library and for kernels.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita {

/// Wraps around at 2^32; compare with reached(), never with <.
using Epoch = partita_u32;

/// Before the first Start. A flag word starts with it, so it is no epoch that data may arrive for.
inline constexpr Epoch no_epoch = 0;

/// The epoch after `epoch`. At the wrap it skips no_epoch and 1, so that odd and even epochs keep alternating
/// (slots are chosen by parity).
PARTITA_HOST_DEVICE constexpr Epoch next(Epoch epoch) {
  return epoch == 0xffffffffu ? 2 : epoch + 1;
}

/// Whether a counter that now reads `seen` has come to `wanted`; the two are less than 2^31 apart.
PARTITA_HOST_DEVICE constexpr bool reached(Epoch seen, Epoch wanted) {
  return static_cast<partita_i32>(seen - wanted) >= 0;
}

}  // namespace partita
