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
/// `is_last`: other blocks may still wait for peers, with a limit to each wait, so that this one has none of its own.
PARTITA_DEVICE_INLINE int await_grid(const Partita_Prequest& request, partita_u32 blocks, bool is_last) {
  partita_u32& word = request.state->decided;
  const partita_u32 mine = grid_rank() == 0 ? barrier_bit - (blocks - 1) : 1;
  // Each addition pairs with the loads that see the bit change: what all blocks did before, all see after.
  const partita_u32 before = DeviceWord<partita_u32>(word).fetch_add(mine, order::memory_order_acq_rel);
  for (;;) {
    Patience patience(request);
    partita_u32 seen = 0;
    const int code = await(BarrierPoll{&word, before}, patience, &seen);
    if (!is_last || code != PARTITA_DEVICE_ERR_TIMEOUT) return code;
  }
}

/// What the first thread of a block gives, for all of its threads. A barrier.
PARTITA_DEVICE_INLINE int of_block(int code) {
  const int first = block_rank() == 0 ? code : 0;
  return block_any(first != 0) ? static_cast<int>(block_broadcast(static_cast<partita_u32>(first))) : 0;
}

/// Where a call begins: a barrier of all threads of the grid, of several blocks or one. Gives every thread 0, or why
/// the call goes no further. The word of a request that was freed, and may be another's by now, is left as it is.
PARTITA_DEVICE_INLINE int first_grid_barrier(const Partita_Prequest& request, partita_u32 blocks) {
  // On its way while the threads of the block come together.
  const partita_u32 live = DeviceWord<partita_u32>(request.state->live).load(order::memory_order_relaxed);
  block_barrier();
  const int code = live == request.life ? 0 : code_of_life(live, request);
  if (blocks == 1) return code;
  return of_block(block_rank() == 0 && code == 0 ? await_grid(request, blocks, false) : code);
}

/// Where a call of several blocks ends: gives every thread of a block the same.
PARTITA_DEVICE_INLINE int last_grid_barrier(const Partita_Prequest& request, partita_u32 blocks) {
  block_barrier();
  return of_block(block_rank() == 0 ? await_grid(request, blocks, true) : 0);
}

}  // namespace partita::device
