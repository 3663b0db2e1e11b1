// The order in which the collectives of a communicator look for their peers.
#pragma once

#include <atomic>
#include <cstdint>

#include "transfer/communicator.hpp"

namespace partita::collective {

/// Calls `seek(is_known)` with the communicator's next number in `places`; it sets `is_known` once a peer may know of
/// one of its halves. Where it throws before, the number is the next collective's. One thread at a time.
template <class Seek>
void seek_in_turn(Communicator& communicator, CollectivePlaces& places, Seek seek) {
  places.number = communicator.collectives.fetch_add(1, std::memory_order_relaxed);
  bool is_known = false;
  try {
    seek(is_known);
  } catch (...) {
    if (!is_known) communicator.collectives.fetch_sub(1, std::memory_order_relaxed);  // as if it had never been made
    throw;
  }
  places.ordinals = {};
}

}  // namespace partita::collective
