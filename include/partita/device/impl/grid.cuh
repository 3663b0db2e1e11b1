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

  PARTITA_DEVICE_INLINE partita_u32 load() const { return DeviceWord<partita_u32>(*word).load(order_before_fence); }
  PARTITA_DEVICE_INLINE bool is_there(partita_u32 value) const { return ((value ^ before) & barrier_bit) != 0; }
};

/// One thread of a block, for it: 0, or the code with which the wait ended. All blocks together add the barrier's bit.
/// `before`: the word when the block's last barrier was over, of which only that bit counts: it stays so until this
/// block comes, too. So nothing is to be learnt from the addition, and nobody waits for what it returns.
/// `is_last`: other blocks may still wait for peers, with a limit to each wait, so that this one has none of its own.
PARTITA_DEVICE_INLINE int await_grid(const Partita_Prequest& request, partita_u32 before, bool is_last) {
  partita_u32& word = request.state->decided;
  const partita_u32 mine = grid_rank() == 0 ? barrier_bit - (grid_blocks() - 1) : 1;
  // Each addition pairs with the fence behind the loads that see the bit change: what all blocks did before, all see
  // after. Each continues the release of those before it.
  DeviceWord<partita_u32>(word).fetch_add(mine, order::memory_order_release);
  for (;;) {
    Patience patience(request);
    partita_u32 seen = 0;
    const int code = await(BarrierPoll{&word, before}, patience, &seen);
    acquire_fence();
    if (!is_last || code != PARTITA_DEVICE_ERR_TIMEOUT) return code;
  }
}

/// What the first thread of a block gives, for all of its threads. A barrier.
PARTITA_DEVICE_INLINE int of_block(int code) {
  const int first = block_rank() == 0 ? code : 0;
  return block_any(first != 0) ? static_cast<int>(block_broadcast(static_cast<partita_u32>(first))) : 0;
}

/// What a thread knows behind the barrier with which a call begins.
class Entry {
 public:
  PARTITA_DEVICE_INLINE Entry(partita_u32 live, int code) : live_(live), code_(code) {}

  /// 0, or why the call goes no further. Asked as late as may be: until then the word is still on its way, while the
  /// thread works out where its data lie.
  PARTITA_DEVICE_INLINE int code(const Partita_Prequest& request) const {
    const auto live = static_cast<partita_u32>(worked_out_later(static_cast<partita_i32>(live_)));
    return live == request.life ? code_ : code_of_life(live, request);
  }

 private:
  partita_u32 live_;
  int code_;
};

/// Where a call begins: a barrier of all threads of the grid, of several blocks or one. The word of a request that was
/// freed, and may be another's by now, is left as it is. `*phase`: for last_grid_barrier, in the first thread of a
/// block.
PARTITA_DEVICE_INLINE Entry first_grid_barrier(const Partita_Prequest& request, partita_u32 blocks,
                                               partita_u32* phase) {
  // On their way while the threads of the block come together.
  const partita_u32 live = DeviceWord<partita_u32>(request.state->live).load(order::memory_order_relaxed);
  if (blocks > 1) *phase = DeviceWord<partita_u32>(request.state->decided).load(order::memory_order_relaxed);
  block_barrier();
  if (blocks == 1) return {live, 0};
  const partita_u32 before = *phase;
  *phase ^= barrier_bit;
  int code = 0;
  if (block_rank() == 0) {
    code = Entry(live, 0).code(request);
    if (code == 0) code = await_grid(request, before, false);
  }
  return {live, of_block(code)};
}

/// Where a kernel that does nothing but the call begins: what comes before it in its stream has ended.
PARTITA_DEVICE_INLINE Entry entry_of_launch(const Partita_Prequest& request) {
  return {DeviceWord<partita_u32>(request.state->live).load(order::memory_order_relaxed), 0};
}

/// Where a call of several blocks ends, behind a barrier of the block: gives every thread of a block the same.
PARTITA_DEVICE_INLINE int last_grid_barrier(const Partita_Prequest& request, partita_u32 phase) {
  return of_block(block_rank() == 0 ? await_grid(request, phase, true) : 0);
}

/// One thread of a block, behind a barrier of it: whether all other blocks of the grid have called this before, so that
/// what they had loaded by then may be stored over. Leaves the word as a barrier of the grid does.
PARTITA_DEVICE_INLINE bool is_last_block(const Partita_Prequest& request, partita_u32 blocks) {
  if (blocks == 1) return true;
  DeviceWord<partita_u32> word(request.state->decided);
  // Each addition pairs with the one that finds all blocks there.
  const partita_u32 before = word.fetch_add(1, order::memory_order_acq_rel);
  if ((before & ~barrier_bit) + 1 != blocks) return false;
  word.fetch_add(0 - blocks, order::memory_order_relaxed);
  return true;
}

}  // namespace partita::device
