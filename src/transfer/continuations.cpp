#include "transfer/continuations.hpp"

namespace partita {

void AfterArrival::await(link::Range transports) {
  transports_ = transports;
  arm();
}

bool AfterArrival::reached() {
  half_.throw_if_failed();
  if (!half_.matched()) return false;
  const bool lost = half_.is_lost();
  if (have_arrived()) return true;
  if (lost) throw half_.why_lost();
  return false;
}

/// What cannot be taken once fails the half: others wait for it as well.
bool AfterArrival::have_arrived() {
  try {
    return half_.arrived(transports_);
  } catch (const std::exception&) {
    throw Error(half_.fail_with_current("could not take what has arrived"));
  }
}

bool AfterLeaving::reached() {
  half_.throw_if_failed();
  if (!half_.matched()) return false;
  const bool lost = half_.is_lost();
  if (half_.all_finished()) return true;
  if (lost) throw half_.why_lost();
  return false;
}

}  // namespace partita
