// How a call on a collective ends whose wait ended in vain.
#pragma once

#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/platform.cuh>

namespace partita::device {

/// One code for all threads of a block, of which some have another one than 0. Recorded; and no call on the request
/// goes on, here or in another block, since the ranks no longer agree how far they are. A barrier.
PARTITA_DEVICE_INLINE int end_in_vain(const Partita_Prequest& request, int code, Epoch epoch) {
  int which = PARTITA_DEVICE_ERR_ABORTED;
  while (which != 0 && !block_any(code == which)) --which;
  if (block_rank() == 0 && which != PARTITA_DEVICE_ERR_FREED) {
    fail(request, which, -1, epoch);
    refuse_calls(request);
  }
  return which;
}

}  // namespace partita::device
