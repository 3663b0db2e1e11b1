// What the two ranks of an offer share, in host memory of the sender's.
#pragma once

#include "memory/host_address.hpp"
#include "two_sided/offer_word.hpp"

namespace partita {

/// A cache line of its own.
struct alignas(64) OfferSlot {
  OfferWord word;
  memory::HostAddress image;  ///< of the bytes, in host memory of the sender's: from the phase `staged` on
};
static_assert(sizeof(OfferSlot) == 64);

}  // namespace partita
