// Epochs that kernels open and complete themselves. Every function here is called by all threads of one block.
#pragma once

#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/receive.cuh>
#include <partita/device/impl/send.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

/// Whether the calls that open and complete epochs are for this request.
PARTITA_DEVICE_INLINE bool takes_epoch_calls(const Partita_Prequest& request) {
  constexpr partita_u32 device_driven = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_DEVICE_DRIVEN;
  return (request.flags & (PARTITA_PREQUEST_ORIGIN | PARTITA_PREQUEST_DEVICE_DRIVEN)) == device_driven;
}
/// The end of such a call where they are not.
PARTITA_DEVICE_INLINE int refuse_epoch_call(const Partita_Prequest& request) {
  return refuse_block_call(request, PARTITA_DEVICE_ERR_DRIVER, -1);
}

/// Thread 0's part of every call on a device-driven request: 0, or why it goes no further. Stores the epoch that was
/// opened last, and whether it is complete.
PARTITA_DEVICE_INLINE int check_epoch_call(const Partita_Prequest& request, Epoch* epoch, bool* complete) {
  Partita_Prequest_state& state = *request.state;
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  // These three were written by blocks with which the caller has synchronised.
  const partita_u64 head = DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed);
  const Epoch completed = DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed);
  const partita_u32 round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  // Pairs with the release in add_decided: the marking blocks have read the buffer.
  const partita_u32 decided = DeviceWord<partita_u32>(state.decided).load(order::memory_order_acquire);
  *epoch = low_half(head);
  *complete = has(request, PARTITA_PREQUEST_RECV) ? completed == *epoch
                                                  : decided == all_decided(round, request.transport_partitions);
  return live == request.life ? 0 : code_of_life(live, request);
}

/// Thread 0's code, for all threads of the block, as a barrier.
PARTITA_DEVICE_INLINE int share_code(int code) {
  return block_any(code != 0) ? static_cast<int>(block_broadcast(static_cast<partita_u32>(code))) : 0;
}

/// At the wrap of epochs: what was noted 2^32 of them ago is forgotten. Unrolled, it would take kernels registers, as
/// the next would.
PARTITA_DEVICE_OUT_OF_LINE void forget_unpacked(partita_u64* unpacked, partita_u32* awaited, partita_i32 count) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 p = 0; p < count; ++p) {
    DeviceWord<partita_u64>(unpacked[p]).store(0, order::memory_order_relaxed);
    DeviceWord<partita_u32>(awaited[p]).store(no_epoch, order::memory_order_relaxed);
  }
}

/// The flags and the front behind them.
PARTITA_DEVICE_OUT_OF_LINE void forget_arrivals(partita_u32* flags, partita_i32 transport_partitions) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 t = 0; t < transport_partitions; ++t) {
    SystemWord<partita_u32>(flags[t]).store(no_epoch, order::memory_order_relaxed);
  }
  SystemWord<partita_u64> front(*front_behind(flags, transport_partitions));
  front.store(front_of(0, no_epoch), order::memory_order_relaxed);
}

PARTITA_DEVICE_INLINE int open_epoch(const Partita_Prequest& request) {
  Epoch before = no_epoch;
  bool complete = false;
  if (const int code = check_epoch_call(request, &before, &complete)) return code;
  if (!complete) return fail(request, PARTITA_DEVICE_ERR_ACTIVE, -1, before);
  Partita_Prequest_state& state = *request.state;
  const Epoch epoch = next(before);
  // For this block and whoever synchronises with it, which is all that reads these words with `round` and `decided` on
  // a GPU, so that their order means nothing; `high` stays behind until pbuf_prepare. The host, which copies them
  // meanwhile where it gives the request up, goes by what names the epoch, and finds `round` one behind, or ahead
  // (DeviceSide).
  DeviceWord<partita_u64>(state.head).store(pair_of(epoch, before), order::memory_order_relaxed);
  if (has(request, PARTITA_PREQUEST_RECV)) {
    DeviceWord<partita_u32>(state.decided).store(0, order::memory_order_relaxed);
    if (epoch < before && has(request, PARTITA_PREQUEST_PACKETS)) {
      forget_unpacked(unpacked(request.state), awaited(request), request.recv_partitions);
    }
    if (forgets_arrivals(before, epoch) && has(request, PARTITA_PREQUEST_FRONT)) {
      forget_arrivals(request.arrival_device, request.transport_partitions);
    }
    // Pairs with the acquire load in await_credit or read_promise: this side has done with what it received before.
    SystemWord<partita_u32>(*request.credit).store(epoch, order::memory_order_release);
  } else {
    DeviceWord<partita_u32>(state.round).fetch_add(1, order::memory_order_relaxed);
  }
  return 0;
}

/// All threads of a block: opens the next epoch. Nothing of the one before may still be under way.
PARTITA_DEVICE_INLINE int pstart(const Partita_Prequest& request) {
  const bool pushed = is_pushed(request.flags);
  if (!pushed && !takes_epoch_calls(request)) return refuse_epoch_call(request);
  block_barrier();  // every thread has done with the buffer
  if (pushed) return share_code(block_rank() == 0 ? open_pushed(request) : 0);
  return share_code(block_rank() == 0 ? open_epoch(request) : 0);
}

PARTITA_DEVICE_INLINE int await_credit(const Partita_Prequest& request) {
  Epoch epoch = no_epoch;
  bool complete = false;
  if (const int code = check_epoch_call(request, &epoch, &complete)) return code;
  if (complete) return fail(request, PARTITA_DEVICE_ERR_INACTIVE, -1, epoch);
  if (has(request, PARTITA_PREQUEST_RECV)) return 0;  // pstart has told the sender
  // Pairs with the release store in open_epoch of the receiver's kernel, or with its host's.
  SystemWord<partita_u32> credit(*reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(request.promise)));
  Patience patience(request);
  while (!reached(credit.load(order::memory_order_acquire), epoch)) {
    if (const int code = patience.look()) return fail(request, code, -1, epoch);
  }
  // For this block and whoever synchronises with it before it marks.
  DeviceWord<partita_u64>(request.state->head).store(pair_of(epoch, epoch), order::memory_order_relaxed);
  return 0;
}

/// All threads of a block: waits until the receiver's buffer may be written in this epoch.
PARTITA_DEVICE_INLINE int pbuf_prepare(const Partita_Prequest& request) {
  if (is_pushed(request.flags)) return prepare_pushed(request.state, request.life);
  if (!takes_epoch_calls(request)) return refuse_epoch_call(request);
  return share_code(block_rank() == 0 ? await_credit(request) : 0);
}

/// Thread 0's part of waiting for the end of a device-driven send: 0, or the code with which it ended.
PARTITA_DEVICE_INLINE int await_decided(const Partita_Prequest& request) {
  Partita_Prequest_state& state = *request.state;
  // Often the wait ends with these: they are on their way at once.
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  const partita_u32 round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  partita_u32 decided = DeviceWord<partita_u32>(state.decided).load(order_before_fence);
  if (live != request.life) return code_of_life(live, request);
  const partita_u32 all = all_decided(round, request.transport_partitions);
  if (decided != all) {
    Patience patience(request);
    if (const int code = await(WordPoll<DeviceWord>{&state.decided, all}, patience, &decided)) return code;
  }
  acquire_fence();  // pairs with the release in add_decided
  return 0;
}

/// The end of a pwait that the request does not take, as refuse_epoch_call. Only thread 0 makes a call here: one by all
/// of them makes kernels of 1,024 threads spill.
PARTITA_DEVICE_INLINE int refuse_wait(const Partita_Prequest& request) {
  block_barrier();
  if (block_rank() == 0) refuse(request, PARTITA_DEVICE_ERR_DRIVER, -1);
  return code_of_refusal(PARTITA_DEVICE_ERR_DRIVER, request.flags);
}

/// This thread's part of waiting for everything that `epoch` brings, and of unpacking it: 0, or the code with which it
/// ended. `some_unpacked` as in await_packets.
PARTITA_DEVICE_INLINE int await_arrivals(const Partita_Prequest& request, Epoch epoch, bool some_unpacked) {
  const Team team{block_rank(), block_threads()};
  if (has(request, PARTITA_PREQUEST_PACKETS)) return await_packets(request, epoch, some_unpacked, team);
  return await_flags(request, {0, request.transport_partitions}, epoch, team);
}

/// All threads of a block: waits until the open epoch is complete on this side; returns at once if none is open.
PARTITA_DEVICE_INLINE int pwait(const Partita_Prequest& request) {
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  const bool first = block_rank() == 0;
  if (!is_made_with(request, PARTITA_PREQUEST_RECV)) {
    if (is_pushed(request.flags)) return await_pushed(request, -1, Awaited::all);
    if (!takes_epoch_calls(request)) return refuse_wait(request);
    return end_wait(first ? await_decided(request) : 0, -1, request);
  }
  // Every thread looks for itself and none needs the others before it polls; but the host's word is read once. All
  // loads are on their way at once.
  Partita_Prequest_state& state = *request.state;
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  const Epoch completed = DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed);
  const bool some_unpacked = DeviceWord<partita_u32>(state.decided).load(order::memory_order_relaxed) != 0;
  if (!device_driven) block_barrier();  // a call before may have ended in a broadcast
  const bool asks = first && live == request.life;
  const Epoch epoch = device_driven ? low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed))
                                    : block_broadcast(asks ? look_at_started(request) : no_epoch);
  // `completed` is written by pwait and pnext alone, behind a barrier of their block. The host completes the epoch of a
  // host-driven receive, and flags tell no less afterwards.
  const bool open = !device_driven || completed != epoch;
  int code = live == request.life ? 0 : code_of_life(live, request);
  if (code == 0 && open) code = await_arrivals(request, epoch, some_unpacked);

  code = end_wait(code, -1, request);
  if (code != 0) return code;
  // For parrived and pstart after it. Every thread stores, so that each finds it there without one more barrier.
  if (device_driven) DeviceWord<partita_u32>(state.completed).store(epoch, order::memory_order_relaxed);
  return PARTITA_DEVICE_SUCCESS;
}

// ---- The end of one epoch and the beginning of the next in one pass ------------------------------------------------

/// Why pnext cannot be called with `request` as its receive (`of_recv`) or as a send; 0 if it can. To nobody, it can.
PARTITA_DEVICE_INLINE int refusal_of_next(const Partita_Prequest& request, bool of_recv) {
  if (is_to_nobody(request)) return 0;
  if (!is_made_with(request, of_recv ? PARTITA_PREQUEST_RECV : PARTITA_PREQUEST_SEND)) return PARTITA_DEVICE_ERR_SIDE;
  return has(request, PARTITA_PREQUEST_DEVICE_DRIVEN) ? 0 : PARTITA_DEVICE_ERR_DRIVER;
}

/// The receiver's word that an epoch, or one after it, is open there.
struct CreditPoll {
  partita_u32* word;
  Epoch epoch;

  PARTITA_DEVICE_INLINE partita_u32 load() const { return SystemWord<partita_u32>(*word).load(order_before_fence); }
  PARTITA_DEVICE_INLINE bool is_there(partita_u32 credit) const { return reached(credit, epoch); }
};

/// One thread's opening of the next epoch of a send, and its wait until the receiver has opened it: 0, or the code with
/// which it ended, recorded.
PARTITA_DEVICE_INLINE int open_prepared(const Partita_Prequest& send) {
  Epoch before = no_epoch;
  bool complete = false;
  if (const int code = check_epoch_call(send, &before, &complete)) return fail(send, code, -1, before);
  if (!complete) return fail(send, PARTITA_DEVICE_ERR_ACTIVE, -1, before);
  Partita_Prequest_state& state = *send.state;
  const Epoch epoch = next(before);
  DeviceWord<partita_u32>(state.round).fetch_add(1, order::memory_order_relaxed);
  // Open, whatever becomes of the wait: pbuf_prepare may repeat it.
  DeviceWord<partita_u64>(state.head).store(pair_of(epoch, before), order::memory_order_relaxed);
  partita_u32* const word = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(send.promise));
  partita_u32 credit = no_epoch;
  Patience patience(send);
  if (const int code = await(CreditPoll{word, epoch}, patience, &credit)) return fail(send, code, -1, epoch);
  acquire_fence();  // pairs with the release store in open_epoch of the receiver's kernel, or with its host's
  // For this block and whoever synchronises with it before it marks.
  DeviceWord<partita_u64>(state.head).store(pair_of(epoch, epoch), order::memory_order_relaxed);
  return 0;
}

/// One thread's part of pnext on the sends: 0, or the code with which it ended, recorded.
PARTITA_DEVICE_INLINE int turn_sends(const Partita_Prequest& send, const Partita_Prequest& next_send) {
  if (!is_to_nobody(send)) {
    if (const int code = await_decided(send)) {
      return fail(send, code, -1,
                  low_half(DeviceWord<partita_u64>(send.state->head).load(order::memory_order_relaxed)));
    }
  }
  return is_to_nobody(next_send) ? 0 : open_prepared(next_send);
}

/// All threads of a block: pwait, pstart and pbuf_prepare of a send in one pass.
PARTITA_DEVICE_INLINE int pnext(const Partita_Prequest& send) {
  if (const int code = refusal_of_next(send, false)) return refuse_block_call(send, code, -1);
  return share_code(block_rank() == 0 ? turn_sends(send, send) : 0);
}

/// The end of a pnext in which some thread's wait ended: one code for all. `sends_code`: what turn_sends gave to the
/// thread that called it, 0 in the others. A barrier.
PARTITA_DEVICE_INLINE int end_next(int receive_code, int sends_code, const Partita_Prequest& recv) {
  const int code = end_wait(receive_code, -1, recv);
  if (code != 0) return code;
  int which = PARTITA_DEVICE_ERR_ABORTED;
  while (which != 0 && !block_any(sends_code == which)) --which;
  return which;
}

/// All threads of a block: pwait of `recv` and `send`, pstart and pbuf_prepare of `next_send` in one pass. The last
/// thread cares for the sends, and for what it has of the receive afterwards; the others wait meanwhile.
PARTITA_DEVICE_INLINE int pnext(const Partita_Prequest& send, const Partita_Prequest& recv,
                                const Partita_Prequest& next_send) {
  if (const int code = refusal_of_next(send, false)) return refuse_block_call(send, code, -1);
  if (const int code = refusal_of_next(recv, true)) return refuse_block_call(recv, code, -1);
  if (const int code = refusal_of_next(next_send, false)) return refuse_block_call(next_send, code, -1);
  const int sends_code = block_rank() == block_threads() - 1 ? turn_sends(send, next_send) : 0;
  int code = 0;
  Epoch epoch = no_epoch;
  const bool receives = !is_to_nobody(recv);
  if (receives) {
    // All loads are on their way at once.
    Partita_Prequest_state& state = *recv.state;
    const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
    const Epoch completed = DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed);
    const bool some_unpacked = DeviceWord<partita_u32>(state.decided).load(order::memory_order_relaxed) != 0;
    epoch = low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed));
    if (live != recv.life) {
      code = code_of_life(live, recv);
    } else if (completed != epoch) {
      code = await_arrivals(recv, epoch, some_unpacked);
    }
  }
  if (block_any(code != 0 || sends_code != 0)) {
    code = end_next(code, sends_code, recv);
    if (code != 0) return code;
  }
  // As in pwait.
  if (receives) DeviceWord<partita_u32>(recv.state->completed).store(epoch, order::memory_order_relaxed);
  return PARTITA_DEVICE_SUCCESS;
}

}  // namespace partita::device
