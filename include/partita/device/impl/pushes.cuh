// The marks of a collective whose marks push: each stores what its partition has for each peer into an inbox in that
// one's GPU, from where reductions.cuh takes it, or, of a bcast, straight into that one's buffer.
// docs/design/collectives.md, "Pushed by marks", has the protocol.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/credits.cuh>
#include <partita/device/impl/pushed_epochs.cuh>
#include <partita/device/impl/units.cuh>

namespace partita::device {

PARTITA_DEVICE_INLINE partita_u32 pieces_of(const Partita_Prequest& request) {
  return request.rounds;
}

/// Where what is for `rank` begins in the send buffer.
PARTITA_DEVICE_INLINE const unsigned char* sent_to(const Partita_Prequest& request, partita_i32 rank) {
  if (!kind_scatters(request.collective)) return request.sent;
  return request.sent + static_cast<partita_u64>(rank) * block_bytes(request);
}

// ---- Marks ---------------------------------------------------------------------------------------------------------

/// One thread: 0, or why the mark does not count. `*epoch`: the one that it belongs to.
PARTITA_DEVICE_INLINE int begin_push(const Partita_Prequest& request, int partition, Epoch* epoch) {
  // Acquires what the ends of the epochs before have released, whoever told the caller of them: with it the peers'
  // inboxes of two epochs ago have been read. Pairs with the store in count_towards_end.
  Epoch before = DeviceWord<partita_u32>(request.state->completed).load(order::memory_order_acquire);
  *epoch = next(before);
  if (!is_open(request, *epoch)) return PARTITA_DEVICE_ERR_INACTIVE;
  const bool straight = pushes_straight(request.collective);
  const bool credited = straight && is_credited(request, *epoch);
  if (straight && !credited && !have_all_opened(request, *epoch)) return PARTITA_DEVICE_ERR_UNPREPARED;
  DeviceWord<partita_u32> marked(push_words_of(request, push_marked)[partition]);
  const bool counts =
      marked.compare_exchange_strong(before, *epoch, order::memory_order_relaxed, order::memory_order_relaxed);
  if (!counts) return PARTITA_DEVICE_ERR_TWICE;
  // The epoch does not end before this mark does.
  if (!straight) note_open(request, *epoch);
  if (straight && !credited) raise_head(request, *epoch);
  return 0;
}

/// Where the block that this rank has for `rank` goes there.
PARTITA_DEVICE_INLINE unsigned char* pushed_to(const Partita_Prequest& request, partita_i32 rank, Epoch epoch) {
  if (pushes_straight(request.collective)) return request.peers[rank].buffer;
  return inbox_at(request, rank) + inbox_data_at(request.send_partitions, block_bytes(request), epoch);
}

/// The team stores a partition that exists at each other rank. No barrier at either end.
PARTITA_DEVICE_INLINE void push(const Partita_Prequest& request, int partition, Epoch epoch, Team team) {
  const auto bytes = static_cast<partita_u64>(request.send_partition_bytes);
  const partita_u64 begin = static_cast<partita_u64>(partition) * bytes;
  const bool same_to_all = !kind_scatters(request.collective);
  constexpr int at_once = 2;
  const partita_u64 step = unit_size_bytes * team.count;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u64 at = unit_size_bytes * team.rank; at < bytes; at += at_once * step) {
    Unit units[at_once];
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_i32 n = 1; n < request.ranks; ++n) {
      const partita_i32 rank = rank_behind(request, n);
      if (n == 1 || !same_to_all) {
        const unsigned char* const from = sent_to(request, rank) + begin;
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int i = 0; i < at_once; ++i) {
          const partita_u64 offset = at + static_cast<partita_u64>(i) * step;
          if (offset < bytes) units[i] = load_unit(from + offset, bytes_of_unit(bytes - offset));
        }
      }
      unsigned char* const to = pushed_to(request, rank, epoch) + begin;
#if defined(__CUDACC__)
#pragma unroll
#endif
      for (int i = 0; i < at_once; ++i) {
        const partita_u64 offset = at + static_cast<partita_u64>(i) * step;
        if (offset < bytes) store_unit(to + offset, units[i], bytes_of_unit(bytes - offset));
      }
    }
  }
}

/// One thread, behind a barrier with those that have pushed: the partition lies at all other ranks. Once this rank's
/// own flag is raised, or the partition counted that this rank has nothing to reduce of, the epoch may end, and its
/// mark touches nothing any more.
PARTITA_DEVICE_INLINE void end_push(const Partita_Prequest& request, int partition, Epoch epoch) {
  // Before the flags, or it might come behind the end of the epoch, and hide the next one's mark. So the host may hear
  // of a mark whose flags are yet to come: what it launches looks for these.
  SystemWord<partita_u32>(told_marked(request.host)[partition]).store(epoch, order::memory_order_relaxed);
  SystemWord<partita_u32>(request.host->newest_marked).store(epoch, order::memory_order_relaxed);
  release_fence();  // pairs with the acquire fences behind await_inputs and are_inputs_there
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    unsigned char* const inbox = inbox_at(request, rank_behind(request, n));
    SystemWord<partita_u32>(*inbox_flag(inbox, request.send_partitions, partition, epoch))
        .store(epoch, order_after_fence);
  }
  const bool straight = pushes_straight(request.collective);
  // The word of one that is through pairs with the acquires in await_result and pushed_parrived.
  DeviceWord<partita_u32>(push_words_of(request, straight ? push_reduced : push_pushed)[partition])
      .store(epoch, order_after_fence);
  if (straight) count_towards_end(request, epoch);
}

/// One thread, its own partition, for itself.
PARTITA_DEVICE_INLINE int push_by_thread(const Partita_Prequest& request, int partition) {
  Epoch epoch = no_epoch;
  if (const int code = begin_push(request, partition, &epoch)) return fail(request, code, partition, epoch);
  push(request, partition, epoch, {0, 1});
  end_push(request, partition, epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// Lanes of a warp, each its own partition, which they push together one after the other.
PARTITA_DEVICE_INLINE int push_by_lanes(const Partita_Prequest& request, int partition) {
  const Lanes lanes = lanes_with_same(active_lanes(), static_cast<const void*>(request.state));
  Epoch epoch = no_epoch;
  const int code = begin_push(request, partition, &epoch);
  const Lanes counting = lanes_where(lanes, code == 0);
  if (code != 0) return fail(request, code, partition, epoch);
  lanes_barrier(counting);  // every lane's bytes lie before every lane's eyes
  for (Lanes left = counting; left != 0; left &= left - 1) {
    const partita_u32 whose = value_of_lane(counting, static_cast<partita_u32>(partition), first_of(left));
    push(request, static_cast<int>(whose), epoch, {rank_in(counting), count_of(counting)});
  }
  lanes_barrier(counting);
  end_push(request, partition, epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// All lanes of a warp, the same partition. One lane looks whether the request may be used at all: two looks may find
/// two answers, and lanes that go on would wait for those that do not.
PARTITA_DEVICE_INLINE int push_by_warp(const Partita_Prequest& request, partita_u32 life, int partition) {
  const Lanes lanes = lanes_of_warp();
  Epoch epoch = no_epoch;
  int code = 0;
  if (lane() == 0) {
    code = refusal_of_pushed(*request.state, life);
    if (code == 0) {
      code = begin_push(request, partition, &epoch);
      if (code != 0) fail(request, code, partition, epoch);
    }
  }
  lanes_barrier(lanes);  // every lane's bytes, and what lane 0 has acquired, lie before every lane's eyes
  code = static_cast<int>(value_of_lane(lanes, static_cast<partita_u32>(code), 0));
  if (code != 0) return code;
  epoch = value_of_lane(lanes, epoch, 0);
  push(request, partition, epoch, {lane(), count_of(lanes)});
  lanes_barrier(lanes);
  if (lane() == 0) end_push(request, partition, epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// All threads of a block, the same partition.
PARTITA_DEVICE_INLINE int push_by_block(const Partita_Prequest& request, int partition) {
  block_barrier();  // every thread's bytes lie before every thread's eyes
  Epoch epoch = no_epoch;
  int code = 0;
  if (block_rank() == 0) {
    code = begin_push(request, partition, &epoch);
    if (code != 0) fail(request, code, partition, epoch);
  }
  if (block_any(code != 0)) return static_cast<int>(block_broadcast(static_cast<partita_u32>(code)));
  epoch = block_broadcast(epoch);
  push(request, partition, epoch, {block_rank(), block_threads()});
  block_barrier();
  if (block_rank() == 0) end_push(request, partition, epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// Who makes a mark together.
enum class Marker : partita_u32 { thread, lanes, warp, block };

/// Why a mark of `partition` is refused, whatever has been marked; 0 if it is not.
PARTITA_DEVICE_INLINE int refusal_of_push(const Partita_Prequest& request, int partition) {
  if (!may_mark(request)) return PARTITA_DEVICE_ERR_SIDE;
  const bool exists = static_cast<partita_u32>(partition) < static_cast<partita_u32>(request.send_partitions);
  return exists ? 0 : PARTITA_DEVICE_ERR_PARTITION;
}

/// Out of line, so that kernels that mark sends have the registers of that; all arguments fit in registers.
PARTITA_DEVICE_OUT_OF_LINE int push_out_of_line(Partita_Prequest_state* state, Partita_Prequest_host* host,
                                                partita_u32 life, int partition, Marker marker) {
  constexpr partita_u32 flags = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_PUSHED;
  const Partita_Prequest& request = *copy_of_request(state);
  // Each thread looks for itself, but of a warp one for all.
  int code = marker == Marker::warp ? 0 : refusal_of_pushed(*state, life);
  if (marker == Marker::block) {
    if (block_any(code != 0)) return code != 0 ? code : PARTITA_DEVICE_ERR_ABORTED;
  } else if (code != 0) {
    return code;
  }
  code = refusal_of_push(request, partition);
  if (code != 0) {
    if (marker == Marker::block) return refuse_call_of_block(flags, state, host, life, code, partition);
    return refuse_call(flags, state, host, life, code, partition);
  }
  if (marker == Marker::block) return push_by_block(request, partition);
  if (marker == Marker::warp) return push_by_warp(request, life, partition);
  if (marker == Marker::lanes) return push_by_lanes(request, partition);
  return push_by_thread(request, partition);
}
/// A mark of one whose marks push.
PARTITA_DEVICE_INLINE int push(const Partita_Prequest& request, int partition, Marker marker) {
  return push_out_of_line(request.state, request.host, request.life, partition, marker);
}

/// One thread, partitions `first` to `last`, both included. Marks that do not count are left out; the first such code
/// comes back.
PARTITA_DEVICE_OUT_OF_LINE int push_range(Partita_Prequest_state* state, Partita_Prequest_host* host, partita_u32 life,
                                          int first, int last) {
  constexpr partita_u32 flags = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_PUSHED;
  if (const int code = refusal_of_pushed(*state, life)) return code;
  const Partita_Prequest& request = *copy_of_request(state);
  if (!may_mark(request)) return refuse_call(flags, state, host, life, PARTITA_DEVICE_ERR_SIDE, first);
  if (first < 0 || first > last || last >= request.send_partitions) {
    const int wrong = first < 0 || first > last ? first : last;
    return refuse_call(flags, state, host, life, PARTITA_DEVICE_ERR_PARTITION, wrong);
  }
  int result = PARTITA_DEVICE_SUCCESS;
  for (partita_i64 partition = first; partition <= last; ++partition) {
    const int code = push_by_thread(request, static_cast<int>(partition));
    if (result == PARTITA_DEVICE_SUCCESS) result = code;
  }
  return result;
}

/// Thread 0's part of MPIX_Pstart on one whose marks push.
PARTITA_DEVICE_INLINE int open_pushed(const Partita_Prequest& request) {
  if (const int code = refusal_of_pushed(*request.state, request.life)) return code;
  // Pairs with the release in count_towards_end: `head` is not behind that epoch any more.
  const Epoch before = DeviceWord<partita_u32>(request.state->completed).load(order::memory_order_acquire);
  const Epoch epoch = next(before);
  DeviceWord<partita_u64> head(request.state->head);
  partita_u64 seen = head.load(order::memory_order_relaxed);
  // Two may open the same one: the second fails.
  const bool straight = pushes_straight(request.collective);
  const partita_u64 opened = pair_of(epoch, straight && may_mark(request) ? high_half(seen) : epoch);
  const bool opens = !is_open(request, epoch) && head.compare_exchange_strong(seen, opened, order::memory_order_relaxed,
                                                                              order::memory_order_relaxed);
  if (!opens) return fail(request, PARTITA_DEVICE_ERR_ACTIVE, -1, epoch);
  if (!may_mark(request)) {
    give_credit(request.state, epoch);
  } else if (straight && forgets_arrivals(before, epoch)) {
    forget_credits(request.state, before);
  }
  return 0;
}

}  // namespace partita::device
