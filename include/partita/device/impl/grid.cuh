// What all blocks of a grid do together in a collective.
#pragma once

#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

/// The bit of Partita_Prequest_state.decided that a barrier of the grid turns over.
inline constexpr partita_u32 barrier_bit = 0x80000000u;

/// What await polls: whether the barrier that found the word so is over.
struct BarrierPoll {
  partita_u32* word;
  partita_u32 before;

  PARTITA_DEVICE_INLINE partita_u32 load() const {
    return DeviceWord<partita_u32>(*word).load(order::memory_order_acquire);
  }
  PARTITA_DEVICE_INLINE bool is_there(partita_u32 value) const { return ((value ^ before) & barrier_bit) != 0; }
};

/// One thread of a block, for it: 0, or the code with which the wait ended. All blocks together add the barrier's bit.
PARTITA_DEVICE_INLINE int await_grid(const Partita_Prequest& request, partita_u32 blocks) {
  partita_u32& word = request.state->decided;
  const partita_u32 mine = grid_rank() == 0 ? barrier_bit - (blocks - 1) : 1;
  // Each addition pairs with the loads that see the bit change: what all blocks did before, all see after.
  const partita_u32 before = DeviceWord<partita_u32>(word).fetch_add(mine, order::memory_order_acq_rel);
  Patience patience(request);
  partita_u32 seen = 0;
  return await(BarrierPoll{&word, before}, patience, &seen);
}

/// A barrier of all threads of the grid, which gives every thread of a block the same: 0, or why it ended.
PARTITA_DEVICE_INLINE int grid_barrier(const Partita_Prequest& request, partita_u32 blocks) {
  block_barrier();
  if (blocks == 1) return 0;
  const int code = block_rank() == 0 ? await_grid(request, blocks) : 0;
  return block_any(code != 0) ? static_cast<int>(block_broadcast(static_cast<partita_u32>(code))) : 0;
}

}  // namespace partita::device
