// A send's mark: counted, checked, and settled by the last one of its transport partition. docs/design/device.md, "From
// Pready to Parrived", has the steps.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/packets.cuh>
#include <partita/device/impl/plan.hpp>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

PARTITA_DEVICE_INLINE Plan plan_of(const Partita_Prequest& request) {
  return Plan(request.send_partitions, request.recv_partitions, request.transport_partitions, request.total_bytes);
}
PARTITA_DEVICE_INLINE bool has(const Partita_Prequest& request, partita_u32 flag) {
  return (request.flags & flag) != 0;
}

/// One mark: whether it counts, in which epoch, and who moves its bytes.
struct Mark {
  int code;  ///< not 0: it does not count, and is recorded
  Epoch epoch;
  bool noted;         ///< `head` said that this epoch was looked at and may be written
  bool deferred;      ///< the progress engine moves the bytes
  partita_u32 extra;  ///< marks of the partition beyond one in each epoch, to be looked at by end_mark
};

PARTITA_DEVICE_INLINE int check_mark(int partition, const Partita_Prequest& request) {
  if (has(request, PARTITA_PREQUEST_RECV)) return fail(request, PARTITA_DEVICE_ERR_SIDE, partition, no_epoch);
  if (static_cast<partita_u32>(partition) >= static_cast<partita_u32>(request.send_partitions)) {
    return fail(request, PARTITA_DEVICE_ERR_PARTITION, partition, no_epoch);
  }
  return 0;
}

/// Takes a mark back that does not count, so that the epoch can still be completed rightly.
MPIX_Device inline int refuse_mark(int partition, const Partita_Prequest& request, int code, Epoch epoch) {
  DeviceWord<partita_u32>(marks(request.state, request.transport_partitions)[partition])
      .fetch_sub(1, order::memory_order_relaxed);
  return code == PARTITA_DEVICE_ERR_FREED ? code : fail(request, code, partition, epoch);
}

/// Where a request stands: three words of its state, on their way at once.
struct Standing {
  partita_u64 head;
  partita_u32 round;
  partita_u32 live;
};

PARTITA_DEVICE_INLINE Standing read_standing(const Partita_Prequest& request) {
  Partita_Prequest_state& state = *request.state;
  Standing standing{};
  standing.round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  standing.live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  // Device-driven: the caller has synchronised with the block whose Pbuf_prepare saw the credit. Host-driven: pairs
  // with the release store in look_at_promise, whose thread did.
  standing.head = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)
                      ? DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed)
                      : DeviceWord<partita_u64>(state.head).load(order::memory_order_acquire);
  return standing;
}

/// Step 1: counts the mark of a partition that exists. How often it was marked before is not waited for until end_mark.
PARTITA_DEVICE_INLINE partita_u32 add_mark(int partition, const Partita_Prequest& request) {
  return DeviceWord<partita_u32>(marks(request.state, request.transport_partitions)[partition])
      .fetch_add(1, order::memory_order_relaxed);
}

/// What is known of a mark when the request's standing is; `before`: what add_mark gave.
PARTITA_DEVICE_INLINE Mark begin_mark(int partition, const Partita_Prequest& request, partita_u32 before,
                                      const Standing& standing) {
  Mark mark{0, low_half(standing.head), high_half(standing.head) == low_half(standing.head), false, 0};
  mark.extra = before - (standing.round - 1);
  if (standing.live != 1) {
    mark.code = refuse_mark(partition, request, code_of_life(standing.live), mark.epoch);
  } else if (has(request, PARTITA_PREQUEST_DEVICE_DRIVEN) && !mark.noted) {
    // Without an open epoch the count says more.
    const bool closed = mark.extra != 0;
    mark.code =
        refuse_mark(partition, request, closed ? PARTITA_DEVICE_ERR_TWICE : PARTITA_DEVICE_ERR_UNPREPARED, mark.epoch);
  }
  return mark;
}

/// The verdict on a mark's count. A mark that does not count may have moved bytes, but settles nothing.
PARTITA_DEVICE_INLINE int end_mark(const Mark& mark, int partition, const Partita_Prequest& request) {
  if (mark.code != 0 || mark.extra == 0) return mark.code;
  return refuse_mark(partition, request, PARTITA_DEVICE_ERR_TWICE, mark.epoch);
}

/// Step 1 where nothing is gained by waiting for the count later.
PARTITA_DEVICE_INLINE Mark count_mark(int partition, const Partita_Prequest& request) {
  Mark mark{check_mark(partition, request), no_epoch, false, false, 0};
  if (mark.code != 0) return mark;
  const partita_u32 before = add_mark(partition, request);
  mark = begin_mark(partition, request, before, read_standing(request));
  mark.code = end_mark(mark, partition, request);
  return mark;
}

/// What the host's word says about an epoch of a host-driven send.
enum class Promise : partita_u32 { not_started, not_ready, ready };

/// Reads the host's word: `promise` as in Partita_Prequest; `direct`: kernels store into the receiver's memory.
PARTITA_DEVICE_INLINE Promise read_promise(const partita_u64* promise, bool direct, Epoch epoch) {
  // Written by halves, so read by halves, both on their way at once. No data hangs on `started`. `credit` pairs with
  // the release store with which the receiver opened the epoch, after it had done with what it received before.
  auto* const halves = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(promise));
  const Epoch started = SystemWord<partita_u32>(halves[1]).load(order::memory_order_relaxed);
  const Epoch credit = SystemWord<partita_u32>(halves[0]).load(order::memory_order_acquire);
  if (started != epoch) return Promise::not_started;
  return !direct || reached(credit, epoch) ? Promise::ready : Promise::not_ready;
}

/// Step 2, where `head` does not know yet. Of all threads that ask at the same time one reads the host's word and the
/// others take its answer: such reads go to the host one by one, a microsecond each.
PARTITA_DEVICE_OUT_OF_LINE Promise ask_promise(Partita_Prequest_state& state, const partita_u64* host_word, bool direct,
                                               Epoch epoch) {
  DeviceWord<partita_u32> looking(state.looking);
  DeviceWord<partita_u32> refusals(state.refusals);
  DeviceWord<partita_u64> head(state.head);
  const partita_u32 before = refusals.load(order::memory_order_relaxed);
  for (bool again = false;; again = true) {
    partita_u32 nobody = no_epoch;
    const bool worth_it = !again || looking.load(order::memory_order_relaxed) == nobody;
    if (worth_it &&
        looking.compare_exchange_strong(nobody, epoch, order::memory_order_acquire, order::memory_order_relaxed)) {
      const Promise promise = read_promise(host_word, direct, epoch);
      if (promise == Promise::ready) {
        // Pairs with the acquire loads in begin_mark and below. This thread's own mark is still open, so the epoch
        // cannot end before.
        head.store(pair_of(epoch, epoch), order::memory_order_release);
      } else {
        const partita_u32 count = (refusals.load(order::memory_order_relaxed) & ~1u) + 2;
        refusals.store(count | (promise == Promise::not_started ? 1u : 0u), order::memory_order_relaxed);
      }
      looking.store(no_epoch, order::memory_order_release);  // pairs with the exchange of the next one to look
      return promise;
    }
    if (high_half(head.load(order::memory_order_acquire)) == epoch) return Promise::ready;
    const partita_u32 now = refusals.load(order::memory_order_relaxed);
    if (now != before) return (now & 1u) != 0 ? Promise::not_started : Promise::not_ready;
    relax();
  }
}
PARTITA_DEVICE_INLINE Promise look_at_promise(const Partita_Prequest& request, Epoch epoch) {
  return ask_promise(*request.state, request.promise, request.remote != nullptr, epoch);
}

/// Steps 1 and 2 of one mark, after count_mark and, where that was needed, look_at_promise.
PARTITA_DEVICE_INLINE Mark judge(Mark mark, Promise promise, int partition, const Partita_Prequest& request) {
  if (promise == Promise::not_started) {
    mark.code = refuse_mark(partition, request, PARTITA_DEVICE_ERR_INACTIVE, mark.epoch);
  } else if (promise == Promise::not_ready && has(request, PARTITA_PREQUEST_IN_PLACE)) {
    mark.code = refuse_mark(partition, request, PARTITA_DEVICE_ERR_UNPREPARED, mark.epoch);
  }
  mark.deferred = promise == Promise::not_ready || request.remote == nullptr;
  return mark;
}

/// Steps 1 and 2 for one thread.
PARTITA_DEVICE_INLINE Mark make_mark(int partition, const Partita_Prequest& request) {
  const Mark mark = count_mark(partition, request);
  if (mark.code != 0) return mark;
  const Promise promise = mark.noted ? Promise::ready : look_at_promise(request, mark.epoch);
  return judge(mark, promise, partition, request);
}

/// Where the packets of the bytes from `offset_bytes` on go.
PARTITA_DEVICE_INLINE unsigned char* packet_slots(const Partita_Prequest& request, partita_i64 offset_bytes) {
  return request.remote + packet_bytes / packet_data_bytes * offset_bytes;
}

/// Step 3 for `size_bytes` of the buffer from `offset_bytes` on. No barrier at either end.
PARTITA_DEVICE_INLINE void move(const Partita_Prequest& request, partita_i64 offset_bytes, partita_i64 size_bytes,
                                Epoch epoch, Team team) {
  const unsigned char* const from = request.buffer + offset_bytes;
  if (has(request, PARTITA_PREQUEST_PACKETS)) {
    send_packets(packet_slots(request, offset_bytes), from, size_bytes, epoch, team,
                 first_packets(from, size_bytes, team));
  } else {
    copy(request.remote + offset_bytes, from, size_bytes, team);
  }
}

/// Whether the marking threads move the bytes of a mark.
PARTITA_DEVICE_INLINE bool moves_bytes(const Partita_Prequest& request, bool deferred) {
  return !deferred && !has(request, PARTITA_PREQUEST_IN_PLACE);
}

/// Step 5, first half, by the last decider of an epoch, before the host or Pwait hears of its end: everything is as the
/// next epoch needs it.
PARTITA_DEVICE_INLINE void open_next(const Partita_Prequest& request, Epoch epoch) {
  if (has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)) return;  // MPIX_Pstart does
  // Both are read in the next epoch only, which starts after the host has seen `completed`.
  Partita_Prequest_state& state = *request.state;
  DeviceWord<partita_u64>(state.head).store(pair_of(next(epoch), epoch), order::memory_order_relaxed);
  DeviceWord<partita_u32>(state.round).fetch_add(1, order::memory_order_relaxed);
}

/// Step 5, second half. `fenced`: a release fence lies behind everything that `completed` stands for.
PARTITA_DEVICE_INLINE void complete_send(const Partita_Prequest& request, Epoch epoch, bool fenced) {
  if (has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)) {
    // Pairs with the acquire loads in pwait and pstart.
    DeviceWord<partita_u32>(request.state->completed).store(epoch, order::memory_order_release);
  } else if (fenced) {
    // Pairs, with the fence, with the acquire load of the host's Wait, Test and Start.
    SystemWord<partita_u32>(request.host->completed).store(epoch, order_after_fence);
  } else {
    // The same.
    SystemWord<partita_u32>(request.host->completed).store(epoch, order::memory_order_release);
  }
}

/// Step 4, by the decider of transport partition `t`: announces it, or gives all of it to the progress engine. True if
/// it made a release fence and stored nothing that a host looks for at `completed` after it.
PARTITA_DEVICE_INLINE bool announce(const Partita_Prequest& request, partita_i32 t, Epoch epoch, bool deferred) {
  if (deferred) {
    // Pairs with the acquire load of the progress engine, which then reads the buffer.
    SystemWord<partita_u32>(handed_over(request.host)[t]).store(epoch, order::memory_order_release);
    return false;
  }
  if (has(request, PARTITA_PREQUEST_PACKETS)) return false;  // the bytes speak for themselves
  release_fence();
  // Pair with the acquire loads of the receiver's kernels (parrived, pwait) and host.
  if (request.arrival_device != nullptr) {
    SystemWord<partita_u32>(request.arrival_device[t]).store(epoch, order_after_fence);
  }
  if (request.arrival_host != nullptr) {
    SystemWord<partita_u32>(request.arrival_host[t]).store(epoch, order_after_fence);
  }
  return true;
}

/// Steps 4 and 5: adds `count` marks, `deferred` of them deferred, to transport partition `t`. Called by one thread,
/// after a barrier with those that moved the bytes.
PARTITA_DEVICE_INLINE void settle(const Partita_Prequest& request, const Plan& plan, partita_i32 t, partita_u32 count,
                                  partita_u32 deferred, Epoch epoch) {
  Partita_Prequest_state& state = *request.state;
  const partita_u32 wanted = static_cast<partita_u32>(plan.send_run(t).size());
  if (count != wanted) {
    DeviceWord<partita_u64> counter(counters(&state)[t]);
    // Acquire-release: the last one to arrive has everybody's bytes behind it, and every deferral before its eyes.
    const partita_u64 mine = pair_of(count, deferred);
    const partita_u64 sum = counter.fetch_add(mine, order::memory_order_acq_rel) + mine;
    if (low_half(sum) != wanted) return;
    deferred = high_half(sum);
    counter.store(0, order::memory_order_relaxed);  // read next in the next epoch
  }

  const bool only_one = request.transport_partitions == 1;
  if (only_one) open_next(request, epoch);  // ahead of the fence in announce, which then serves `completed` too
  const bool fenced = announce(request, t, epoch, deferred != 0);
  if (!only_one) {
    // Acquire-release: the last one has all announcements behind it.
    DeviceWord<partita_u32> decided(state.decided);
    if (decided.fetch_add(1, order::memory_order_acq_rel) + 1 != static_cast<partita_u32>(request.transport_partitions))
      return;
    decided.store(0, order::memory_order_relaxed);  // read next in the next epoch
    open_next(request, epoch);
  }
  complete_send(request, epoch, only_one && fenced);
}

}  // namespace partita::device
