// The words behind the two records of a device request, where they lie and how long they are. For the host too.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/epoch.hpp>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

PARTITA_HOST_DEVICE constexpr partita_u32 low_half(partita_u64 word) {
  return static_cast<partita_u32>(word);
}
PARTITA_HOST_DEVICE constexpr partita_u32 high_half(partita_u64 word) {
  return static_cast<partita_u32>(word >> 32);
}
PARTITA_HOST_DEVICE constexpr partita_u64 pair_of(partita_u32 low, partita_u32 high) {
  return (partita_u64{high} << 32) | low;
}

/// The half of a send's `head` that names the newest epoch in which the receiver was seen ready. The host stores it
/// alone, beside kernels that store the whole.
PARTITA_HOST_DEVICE inline partita_u32* seen_ready(Partita_Prequest_state* state) {
  return reinterpret_cast<partita_u32*>(&state->head) + 1;
}
/// Marks and deferred marks of each transport partition of a send in this epoch.
PARTITA_HOST_DEVICE inline partita_u64* counters(Partita_Prequest_state* state) {
  return reinterpret_cast<partita_u64*>(state + 1);
}
/// What a send's `decided` comes to when all transport partitions of `round` epochs are decided.
PARTITA_HOST_DEVICE constexpr partita_u32 all_decided(partita_u32 round, partita_i32 transport_partitions) {
  return round * static_cast<partita_u32>(transport_partitions);
}
/// Marks of each partition of a send since the request was made.
PARTITA_HOST_DEVICE inline partita_u32* marks(Partita_Prequest_state* state, partita_i32 transport_partitions) {
  return reinterpret_cast<partita_u32*>(counters(state) + transport_partitions);
}
/// So many neighbouring transport partitions of a send with PARTITA_PREQUEST_TOGETHER are a group.
inline constexpr partita_u32 group_size = 24;
PARTITA_HOST_DEVICE constexpr partita_u32 group_of(partita_i32 t) {
  return static_cast<partita_u32>(t) / group_size;
}
/// A word a group, 0 between epochs: which of its transport partitions are complete and wait to be announced, and, from
/// one_inside on, how many marks have entered and not left. That count passes 2^16 where as many threads mark at a
/// time: then somebody may find it 0 who is not the last, and announces the sooner; but the last one finds it 0 for
/// certain.
PARTITA_HOST_DEVICE inline partita_u64* groups(Partita_Prequest_state* state, partita_i32 send_partitions,
                                               partita_i32 transport_partitions) {
  const partita_i64 all_marks = partita_i64{send_partitions} + (send_partitions & 1);
  return reinterpret_cast<partita_u64*>(marks(state, transport_partitions) + all_marks);
}
inline constexpr partita_u64 one_inside = partita_u64{1} << 2 * group_size;
/// What transport partition `t` is in its group's word.
PARTITA_HOST_DEVICE constexpr partita_u64 bit_in_group(partita_i32 t, bool handed_over) {
  const partita_u32 place = static_cast<partita_u32>(t) % group_size;
  return partita_u64{1} << (handed_over ? place + group_size : place);
}
PARTITA_HOST_DEVICE constexpr partita_u32 put_in_group(partita_u64 word) {
  return low_half(word) & ((1u << group_size) - 1);
}
PARTITA_HOST_DEVICE constexpr partita_u32 handed_over_in_group(partita_u64 word) {
  return put_in_group(word >> group_size);
}

/// A word a partition of a receive with packets: low half, the newest epoch in which an MPIX_Parrived took it on itself
/// to unpack the partition; high half, in which that was done.
PARTITA_HOST_DEVICE inline partita_u64* unpacked(Partita_Prequest_state* state) {
  return reinterpret_cast<partita_u64*>(state + 1);
}
/// A word a partition of a receive with packets: the newest epoch in which a block waited, not in vain, to unpack it.
PARTITA_HOST_DEVICE inline partita_u32* awaited(const Partita_Prequest& request) {
  return reinterpret_cast<partita_u32*>(unpacked(request.state) + request.recv_partitions);
}
/// The newest epoch in which a send's kernel gave transport partition t to the progress engine.
PARTITA_HOST_DEVICE inline partita_u32* handed_over(Partita_Prequest_host* host) {
  return reinterpret_cast<partita_u32*>(host + 1);
}

/// Where the front lies behind `transport_partitions` flags, in words of a flag: at a multiple of its own size.
PARTITA_HOST_DEVICE constexpr partita_i64 place_of_front(partita_i64 transport_partitions) {
  return transport_partitions + (transport_partitions & 1);
}
/// So many words of a flag the flags and the front behind them take.
PARTITA_HOST_DEVICE constexpr partita_i64 words_with_front(partita_i64 transport_partitions) {
  return place_of_front(transport_partitions) + 2;
}
/// What it reads where the first `count` transport partitions have arrived in `epoch`.
PARTITA_HOST_DEVICE constexpr partita_u64 front_of(partita_u32 count, Epoch epoch) {
  return pair_of(count, epoch);
}
/// How many of the first transport partitions have arrived in `epoch`, by the front that reads `front`.
PARTITA_HOST_DEVICE constexpr partita_u32 arrived_in_front(partita_u64 front, Epoch epoch) {
  return high_half(front) == epoch ? low_half(front) : 0;
}
/// The front behind `flags`, of a receive with PARTITA_PREQUEST_FRONT.
PARTITA_HOST_DEVICE inline partita_u64* front_behind(partita_u32* flags, partita_i64 transport_partitions) {
  return reinterpret_cast<partita_u64*>(flags + place_of_front(transport_partitions));
}
/// Whether the flags of a receive that has a front are set back where `epoch` follows `before`. An epoch raises flags
/// or counts in the front, so that the number in either may be old; twice in 2^32 epochs all are set back before it
/// comes again. Not only at the wrap: kernels may hear of an epoch before that is done.
PARTITA_HOST_DEVICE constexpr bool forgets_arrivals(Epoch before, Epoch epoch) {
  return ((before ^ epoch) >> 31) != 0;
}

/// Bytes of a state with the words behind it.
PARTITA_HOST_DEVICE constexpr partita_u64 state_bytes(partita_u32 flags, partita_i32 send_partitions,
                                                      partita_i32 recv_partitions, partita_i32 transport_partitions) {
  const partita_u64 head = sizeof(Partita_Prequest_state);
  if ((flags & PARTITA_PREQUEST_SEND) != 0) {
    const partita_u64 all_marks = static_cast<partita_u64>(send_partitions) + (send_partitions & 1);
    const partita_u64 all_groups =
        (flags & PARTITA_PREQUEST_TOGETHER) != 0 ? group_of(transport_partitions - 1) + partita_u64{1} : 0;
    return head + sizeof(partita_u64) * (static_cast<partita_u64>(transport_partitions) + all_groups) +
           sizeof(partita_u32) * all_marks;
  }
  if ((flags & PARTITA_PREQUEST_PACKETS) == 0) return head;
  return head + (sizeof(partita_u64) + sizeof(partita_u32)) * static_cast<partita_u64>(recv_partitions);
}
/// Bytes of a host record with the words behind it.
PARTITA_HOST_DEVICE constexpr partita_u64 host_bytes(partita_u32 flags, partita_i32 transport_partitions) {
  const partita_u64 head = sizeof(Partita_Prequest_host);
  if ((flags & PARTITA_PREQUEST_SEND) == 0) return head;
  return head + sizeof(partita_u32) * static_cast<partita_u64>(transport_partitions);
}
/// Bytes of the packet slots of a request that moves `total_bytes`.
PARTITA_HOST_DEVICE constexpr partita_u64 packet_slot_bytes(partita_i64 total_bytes) {
  return 2 * static_cast<partita_u64>(total_bytes);
}

/// Whether marks of a send are announced together, PARTITA_PREQUEST_TOGETHER: where there are many, so that what it
/// costs to announce one alone, some microseconds, is more than a kernel can hide; but not where a mark is long inside,
/// because it copies much (`copied_bytes`), for then the others would wait; and only where a mark finds its group at
/// once.
PARTITA_HOST_DEVICE constexpr bool announces_together(partita_i32 send_partitions, partita_i32 transport_partitions,
                                                      partita_i64 copied_bytes) {
  return transport_partitions >= 32 && copied_bytes <= 32 * 1024 && send_partitions % transport_partitions == 0;
}

/// Partita_Prequest.unit_bytes of a request whose other fields are set.
PARTITA_HOST_DEVICE inline partita_u32 unit_bytes(const Partita_Prequest& request) {
  const partita_i64 size =
      (request.flags & PARTITA_PREQUEST_SEND) != 0 ? request.send_partition_bytes : request.recv_partition_bytes;
  const partita_u64 joined = reinterpret_cast<partita_u64>(request.buffer) |
                             reinterpret_cast<partita_u64>(request.remote) | static_cast<partita_u64>(size) | 16;
  return static_cast<partita_u32>(joined & (0 - joined));
}

/// Partita_Prequest.marks_each of a request whose other fields are set.
PARTITA_HOST_DEVICE inline partita_u32 marks_each(const Partita_Prequest& request) {
  const bool sends = (request.flags & PARTITA_PREQUEST_SEND) != 0;
  if (!sends || request.send_partitions % request.transport_partitions != 0) return 0;
  return static_cast<partita_u32>(request.send_partitions / request.transport_partitions);
}

/// What Partita_Prequest_state.live says of a request that may not be used any more.
inline constexpr partita_u32 life_freed = 0;
/// Lives are even; of one whose kernels the host has released, this is added.
inline constexpr partita_u32 life_released = 1;
/// Lives have the highest bit: should other words come to lie where a freed request's state was, counts and epochs are
/// not taken for its life.
inline constexpr partita_u32 first_life = 0x80000000;

/// How the words of a new request's state start; `before` is the epoch before its first, `life` as in Partita_Prequest.
/// All further words start as 0.
/// A host-driven send has its first epoch open for marks from the beginning (MPI_Start is the host's word for it);
/// a device-driven request opens it in MPIX_Pstart.
PARTITA_HOST_DEVICE inline Partita_Prequest_state first_state(partita_u32 flags, Epoch before, partita_u32 life) {
  const bool open_for_marks =
      (flags & (PARTITA_PREQUEST_DEVICE_DRIVEN | PARTITA_PREQUEST_SEND)) == PARTITA_PREQUEST_SEND;
  Partita_Prequest_state state{};
  state.head = pair_of(open_for_marks ? next(before) : before, before);
  state.round = open_for_marks ? 1 : 0;
  state.started = before;
  state.completed = before;
  state.live = life;
  return state;
}

}  // namespace partita::device
