// The body of the library's kernel that opens and awaits epochs for a stream: that of the calls within kernels.
#pragma once

#include <partita/device/impl/epochs.cuh>

#include "memory/kernels.hpp"

namespace partita::memory {

/// All threads of the block of `request`. What the calls return was recorded, too.
PARTITA_DEVICE_INLINE void run_epoch(const Partita_Prequest& request, EpochStep step) {
  // Kernels of other streams may fail meanwhile: one thread looks for all.
  const bool has_failed =
      device::block_rank() == 0 &&
      device::DeviceWord<partita_u32>(request.state->failed).load(device::order::memory_order_relaxed) != 0;
  if (device::block_any(has_failed)) return;
  if (step == EpochStep::start) {
    device::pstart(request);
  } else {
    device::pwait(request);
  }
}

}  // namespace partita::memory
