// What a kernel finds wrong.
#pragma once

#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

/// Whether there is anything behind `request`: of one that was cleared or never made, or is to nobody, no more is read.
PARTITA_DEVICE_INLINE bool is_made(const Partita_Prequest& request) {
  return (request.flags & PARTITA_PREQUEST_ORIGIN) == PARTITA_PREQUEST_MADE;
}
/// Whether it is to or from MPI_PROC_NULL.
PARTITA_DEVICE_INLINE bool is_to_nobody(const Partita_Prequest& request) {
  return (request.flags & PARTITA_PREQUEST_ORIGIN) == PARTITA_PREQUEST_NOBODY;
}
/// What a refused call on a request with these flags returns; `code`: why, of one that was made. To nobody every call
/// succeeds.
PARTITA_DEVICE_INLINE int code_of_refusal(int code, partita_u32 flags) {
  const partita_u32 origin = flags & PARTITA_PREQUEST_ORIGIN;
  if (origin == PARTITA_PREQUEST_MADE) return code;
  return origin == PARTITA_PREQUEST_NOBODY ? PARTITA_DEVICE_SUCCESS : PARTITA_DEVICE_ERR_FREED;
}

/// Whether the words are still those of the request with this life, released or not: a freed one's may be another's.
PARTITA_DEVICE_INLINE bool has_life(Partita_Prequest_state& state, partita_u32 life) {
  return (DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed) & ~life_released) == life;
}

/// Records the first failure of a request for its host. The claim is taken in GPU memory, so that the host's words are
/// written by one thread only. The words of a freed request may be another's by now: nothing is recorded there. Kept
/// out of the callers' code, which has registers to save.
PARTITA_DEVICE_OUT_OF_LINE void record_failure(Partita_Prequest_state& state, Partita_Prequest_host& host,
                                               partita_u32 life, int code, int partition, Epoch epoch) {
  if (!has_life(state, life)) return;
  partita_u32 none = 0;
  if (!DeviceWord<partita_u32>(state.failed)
           .compare_exchange_strong(none, 1, order::memory_order_relaxed, order::memory_order_relaxed)) {
    return;
  }
  SystemWord<partita_i32>(host.failure_partition).store(partition, order::memory_order_relaxed);
  SystemWord<partita_u32>(host.failure_epoch).store(epoch, order::memory_order_relaxed);
  // Pairs with the acquire load of the next host call on the request, which then reads the two words above.
  SystemWord<partita_u32>(host.failure).store(static_cast<partita_u32>(code), order::memory_order_release);
}

/// Records it and gives `code` back.
PARTITA_DEVICE_INLINE int fail(const Partita_Prequest& request, int code, int partition, Epoch epoch) {
  record_failure(*request.state, *request.host, request.life, code, partition, epoch);
  return code;
}

/// The end of a call that cannot be made on a request with these words: recorded, where one was made. Gives what the
/// call returns.
PARTITA_DEVICE_OUT_OF_LINE int refuse_call(partita_u32 flags, Partita_Prequest_state* state,
                                           Partita_Prequest_host* host, partita_u32 life, int code, int partition) {
  if ((flags & PARTITA_PREQUEST_ORIGIN) == PARTITA_PREQUEST_MADE) {
    record_failure(*state, *host, life, code, partition, no_epoch);
  }
  return code_of_refusal(code, flags);
}
PARTITA_DEVICE_INLINE int refuse(const Partita_Prequest& request, int code, int partition) {
  return refuse_call(request.flags, request.state, request.host, request.life, code, partition);
}
/// Refuses a call that all threads of a block make; it is a barrier.
PARTITA_DEVICE_OUT_OF_LINE int refuse_call_of_block(partita_u32 flags, Partita_Prequest_state* state,
                                                    Partita_Prequest_host* host, partita_u32 life, int code,
                                                    int partition) {
  block_barrier();
  if (block_rank() == 0) refuse_call(flags, state, host, life, code, partition);
  return code_of_refusal(code, flags);
}
PARTITA_DEVICE_INLINE int refuse_block_call(const Partita_Prequest& request, int code, int partition) {
  return refuse_call_of_block(request.flags, request.state, request.host, request.life, code, partition);
}

/// Why calls on a request whose state has this `live`, which is not its own life, go no further.
PARTITA_DEVICE_INLINE int code_of_life(partita_u32 live, const Partita_Prequest& request) {
  return live == (request.life | life_released) ? PARTITA_DEVICE_ERR_ABORTED : PARTITA_DEVICE_ERR_FREED;
}

/// One thread: from here on no call on the request goes further, in whatever kernel, as if its host had released them.
PARTITA_DEVICE_INLINE void refuse_calls(const Partita_Prequest& request) {
  // Pairs with nothing but itself, as the host's release does. The word may be another request's by now.
  partita_u32 life = request.life;
  DeviceWord<partita_u32>(request.state->live)
      .compare_exchange_strong(life, request.life | life_released, order::memory_order_relaxed,
                               order::memory_order_relaxed);
}

}  // namespace partita::device
