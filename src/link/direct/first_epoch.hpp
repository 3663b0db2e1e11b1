// What the two sides of a request over link `direct` must agree on beforehand: flags carry epochs.
#pragma once

#include "core/error.hpp"
#include "link/context.hpp"

namespace partita::link {

/// Throws Error unless rank `peer`, whose epochs start after `theirs`, counts as this rank does.
inline void check_first_epoch(const Context& context, int peer, Epoch theirs) {
  const Epoch ours = context.settings.first_epoch;
  if (theirs == ours) return;
  throw Error(ErrorClass::other, "PARTITA_FIRST_EPOCH is {} here and {} at rank {}; it must be the same on all ranks",
              ours, theirs, peer);
}

}  // namespace partita::link
