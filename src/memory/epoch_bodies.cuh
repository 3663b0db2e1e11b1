// The body of the library's kernel that opens and awaits epochs for a stream: that of the calls within kernels.
#pragma once

#include <partita/device/impl/epochs.cuh>

#include "memory/kernels.hpp"

namespace partita::memory {

/// All threads of the block of `request`. What the calls return was recorded, too. Behind a failure nothing may go on:
/// the program's kernels do not know that a start was not taken, and would mark, or wait, in the epoch before it.
PARTITA_DEVICE_INLINE void run_epoch(const Partita_Prequest& request, EpochStep step) {
  // Kernels of other streams may fail meanwhile: one thread looks for all.
  const bool has_failed =
      device::block_rank() == 0 &&
      device::DeviceWord<partita_u32>(request.state->failed).load(device::order::memory_order_relaxed) != 0;
  bool is_in_vain = device::block_any(has_failed);
  if (!is_in_vain) {
    const int code = step == EpochStep::start ? device::pstart(request) : device::pwait(request);
    is_in_vain = code != PARTITA_DEVICE_SUCCESS;
  }
  if (is_in_vain && device::block_rank() == 0) device::refuse_calls(request);
}

}  // namespace partita::memory
