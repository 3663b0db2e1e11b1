// The receive side of an epoch: has a partition arrived, and waiting for all of them.
#pragma once

#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/packets.cuh>
#include <partita/device/impl/reductions.cuh>
#include <partita/device/impl/send.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

/// The packets and the data of receive partition `partition`.
struct RecvPiece {
  unsigned char* data;
  const unsigned char* slots;
  partita_i64 size_bytes;
};

PARTITA_DEVICE_INLINE RecvPiece recv_piece(int partition, const Partita_Prequest& request) {
  const partita_i64 bytes = request.recv_partition_bytes;
  const partita_i64 offset = partition * bytes;
  return {request.buffer + offset, request.remote + packet_bytes / packet_data_bytes * offset, bytes};
}

/// Whether the data of `partition` lies in the buffer; brings it there if the packets have come. Several threads may
/// ask at once: one of them unpacks, and until it has done the others hear no.
PARTITA_DEVICE_INLINE bool packets_parrived(int partition, const Partita_Prequest& request, Epoch epoch) {
  DeviceWord<partita_u64> word(unpacked(request.state)[partition]);
  // Pairs with the release store below: whoever sees it may read the data that another thread unpacked.
  partita_u64 seen = word.load(order::memory_order_acquire);
  if (high_half(seen) == epoch) return true;
  if (low_half(seen) == epoch) return false;
  const RecvPiece piece = recv_piece(partition, request);
  if (!packets_have_arrived(piece.slots, packets_of(piece.size_bytes), epoch)) return false;

  if (!word.compare_exchange_strong(seen, pair_of(epoch, high_half(seen)), order::memory_order_relaxed,
                                    order::memory_order_relaxed)) {
    return false;
  }
  // pwait looks at it first, and then at the words of the partitions.
  DeviceWord<partita_u32>(request.state->decided).fetch_add(1, order::memory_order_relaxed);
  const partita_u32 packets = packets_of(piece.size_bytes);
  for (partita_u32 i = 0; i < packets; ++i) store_data(piece.data, i, load_packet(piece.slots + packet_bytes * i));
  word.store(pair_of(epoch, epoch), order::memory_order_release);  // pairs with the load above
  return true;
}

/// The epoch that the host of a host-driven receive has started last. A read of host memory: a microsecond.
PARTITA_DEVICE_INLINE Epoch look_at_started(const Partita_Prequest& request) {
  auto* const halves = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(request.promise));
  const Epoch epoch = SystemWord<partita_u32>(halves[1]).load(order::memory_order_relaxed);
  // For parrived. An older epoch, by a thread that comes late, only costs another look.
  DeviceWord<partita_u32>(request.state->started).store(epoch, order::memory_order_relaxed);
  return epoch;
}

/// The epoch that a request was last seen in by its waiting kernels. Device-driven: the caller has synchronised with
/// the block that called pstart. Host-driven: an epoch that some kernel saw, perhaps not the newest; no data hangs on
/// it.
PARTITA_DEVICE_INLINE Epoch known_epoch(const Partita_Prequest& request) {
  Partita_Prequest_state& state = *request.state;
  return has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)
             ? low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed))
             : DeviceWord<partita_u32>(state.started).load(order::memory_order_relaxed);
}

/// How the front of a receive that has one reads.
PARTITA_DEVICE_INLINE partita_u64 load_front(const Partita_Prequest& request) {
  partita_u64* const front = front_behind(request.arrival_device, request.transport_partitions);
  return SystemWord<partita_u64>(*front).load(order_before_fence);
}

/// Any thread of a receive. Where no epoch is open everything has arrived.
PARTITA_DEVICE_INLINE int parrived(int partition, const Partita_Prequest& request, int* flag) {
  *flag = 0;
  if (const int code = refusal_of(partition, request, true)) {
    *flag = is_to_nobody(request) ? 1 : 0;
    return is_pushed(request.flags) ? pushed_parrived(request, partition, flag) : refuse(request, code, partition);
  }
  // All words are on their way at once: nothing depends on one of them before the last is asked for.
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  const bool packets = has(request, PARTITA_PREQUEST_PACKETS);
  const Range transports = plan_of(request).transports_of_recv(partition);
  const partita_u32 live = DeviceWord<partita_u32>(request.state->live).load(order::memory_order_relaxed);
  Epoch epoch = known_epoch(request);
  const Epoch completed = DeviceWord<partita_u32>(request.state->completed).load(order::memory_order_relaxed);
  const bool has_front = has(request, PARTITA_PREQUEST_FRONT);
  partita_u64 counted = front_of(0, no_epoch);
  Epoch first = no_epoch;
  // Both pair with the release in announce, or with the progress engine's; the first one acquires by the fence below.
  if (has_front) counted = load_front(request);
  if (!packets)
    first = SystemWord<partita_u32>(request.arrival_device[transports.begin]).load(order::memory_order_acquire);

  if (live != request.life) return code_of_life(live, request);
  if (device_driven && completed == epoch) {
    *flag = 1;
  } else if (packets) {
    *flag = packets_parrived(partition, request, epoch) ? 1 : 0;
  } else if (device_driven || reached(first, epoch) ||
             (transports.begin < low_half(counted) && reached(high_half(counted), epoch))) {
    // A word from before the epoch that was seen does not tell of the newest one either. Else only the host knows
    // whether there has been a Start since.
    if (!device_driven) epoch = look_at_started(request);
    partita_i64 t = transports.begin;
    if (const partita_u32 in_front = arrived_in_front(counted, epoch); t < in_front) {
      acquire_fence();
      t = in_front;
    } else if (first == epoch) {
      ++t;
    }
    bool all = t > transports.begin;
    for (; t < transports.end && all; ++t) {
      // Pairs as above.
      all = SystemWord<partita_u32>(request.arrival_device[t]).load(order::memory_order_acquire) == epoch;
    }
    *flag = all ? 1 : 0;
  }
  return PARTITA_DEVICE_SUCCESS;
}

/// What a thread sees of a transport partition's flag, and how many the front counts in its epoch.
struct SeenArrivals {
  partita_u32 in_front;
  partita_u32 own;
};

/// The flag of transport partition `t`, or the front where there is one, until one tells of it in `epoch`.
struct ArrivalPoll {
  partita_i64 t;
  const Partita_Prequest& request;
  Epoch epoch;

  PARTITA_DEVICE_INLINE SeenArrivals load() const {
    SeenArrivals seen{0, no_epoch};
    if (has(request, PARTITA_PREQUEST_FRONT)) {
      seen.in_front = arrived_in_front(load_front(request), epoch);
    }
    seen.own = SystemWord<partita_u32>(request.arrival_device[t]).load(order_before_fence);
    return seen;
  }
  PARTITA_DEVICE_INLINE bool is_there(const SeenArrivals& seen) const {
    return seen.own == epoch || t < static_cast<partita_i64>(seen.in_front);
  }
};

/// This thread's part of waiting for the flags of `transports`: 0, or the code with which it ended.
PARTITA_DEVICE_INLINE int await_flags(const Partita_Prequest& request, Range transports, Epoch epoch, Team team) {
  Patience patience(request);
  for (partita_i64 t = transports.begin + team.rank; t < transports.end;) {
    SeenArrivals seen{0, no_epoch};
    if (const int code = await(ArrivalPoll{t, request, epoch}, patience, &seen)) return code;
    if (transports.end <= static_cast<partita_i64>(seen.in_front)) break;
    do {
      t += team.count;
    } while (t < static_cast<partita_i64>(seen.in_front));
  }
  acquire_fence();  // pairs with the release in announce, or with the progress engine's; a barrier tells the block
  return 0;
}

/// Whether `partition` of packets lies in the buffer for this thread: another one's MPIX_Parrived unpacked it, or the
/// thread's own block waited for it.
PARTITA_DEVICE_INLINE bool is_unpacked(int partition, const Partita_Prequest& request, Epoch epoch) {
  if (DeviceWord<partita_u32>(awaited(request)[partition]).load(order::memory_order_relaxed) == epoch) return true;
  // Pairs with the release store in packets_parrived.
  return high_half(DeviceWord<partita_u64>(unpacked(request.state)[partition]).load(order::memory_order_acquire)) ==
         epoch;
}

/// This thread's part of waiting for all packets and unpacking them. `some_unpacked`: calls before have unpacked
/// partitions of this epoch; a thread that has not heard of it yet has the same packets to care for.
PARTITA_DEVICE_INLINE int await_packets(const Partita_Prequest& request, Epoch epoch, bool some_unpacked, Team team) {
  const partita_u32 packets = packets_of(request.total_bytes);
  if (!some_unpacked) return receive_packets(request.buffer, request.remote, 0, packets, epoch, team, request);
  const partita_u32 each = packets_of(request.recv_partition_bytes);
  for (int p = 0; p < request.recv_partitions; ++p) {
    if (is_unpacked(p, request, epoch)) continue;
    const partita_u32 begin = each * static_cast<partita_u32>(p);
    const int code = receive_packets(request.buffer, request.remote, begin, begin + each, epoch, team, request);
    if (code != 0) return code;
  }
  return 0;
}

/// The end of a block's wait, `code` this thread's part of it: 0, or one code for all, recorded. A barrier.
PARTITA_DEVICE_INLINE int end_wait(int code, int partition, const Partita_Prequest& request) {
  if (!block_any(code != 0)) return 0;
  // Threads may have stopped for different reasons: a release by the host goes first, then a freed request.
  const bool aborted = block_any(code == PARTITA_DEVICE_ERR_ABORTED);
  const bool freed = block_any(code == PARTITA_DEVICE_ERR_FREED);
  const bool late = block_any(code == PARTITA_DEVICE_ERR_TIMEOUT);
  if (!aborted && freed) return PARTITA_DEVICE_ERR_FREED;
  if (aborted) {
    code = PARTITA_DEVICE_ERR_ABORTED;
  } else if (late) {
    code = PARTITA_DEVICE_ERR_TIMEOUT;
  }
  if (block_rank() == 0) {
    fail(request, code, partition, known_epoch(request));
  }
  return code;
}

/// Thread 0's part of waiting for the flags of a partition that exists: 0, or the code with which it ended.
PARTITA_DEVICE_INLINE int await_partition(int partition, const Partita_Prequest& request) {
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  Partita_Prequest_state& state = *request.state;
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  if (live != request.life) return code_of_life(live, request);
  // The host's word is read once, while the partition is still on its way.
  const Epoch epoch = device_driven ? low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed))
                                    : look_at_started(request);
  if (device_driven && DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed) == epoch) return 0;
  return await_flags(request, plan_of(request).transports_of_recv(partition), epoch, {0, 1});
}

/// By every thread of a block that is about to unpack `partition`: its next MPIX_Pwait leaves the bytes alone. Others
/// are not told: that takes a fence on every wait. They unpack it again, to the same bytes.
PARTITA_DEVICE_INLINE void note_unpacked(int partition, const Partita_Prequest& request, Epoch epoch) {
  DeviceWord<partita_u32>(awaited(request)[partition]).store(epoch, order::memory_order_relaxed);
  DeviceWord<partita_u32>(request.state->decided).store(1, order::memory_order_relaxed);  // for pwait
}

/// It did not come to that. The words of a freed request are left alone.
PARTITA_DEVICE_OUT_OF_LINE void take_back_note(Partita_Prequest_state& state, partita_u32* note, partita_u32 life) {
  if (has_life(state, life)) DeviceWord<partita_u32>(*note).store(no_epoch, order::memory_order_relaxed);
}

/// This thread's part of a block's wait for the packets of a partition that exists, and of unpacking them.
PARTITA_DEVICE_INLINE int await_packets_of(int partition, const Partita_Prequest& request) {
  Partita_Prequest_state& state = *request.state;
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  const Epoch epoch = low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed));
  const Epoch completed = DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed);
  if (live != request.life) return code_of_life(live, request);
  if (completed == epoch) return 0;
  note_unpacked(partition, request, epoch);  // ahead of the wait, which is the shorter for it
  const RecvPiece piece = recv_piece(partition, request);
  const Team team{block_rank(), block_threads()};
  return receive_packets(piece.data, piece.slots, 0, packets_of(piece.size_bytes), epoch, team, request);
}

/// All threads of a block: waits until `partition` has arrived.
PARTITA_DEVICE_INLINE int pwait_partition(int partition, const Partita_Prequest& request) {
  if (const int code = refusal_of(partition, request, true)) {
    if (is_pushed(request.flags)) return await_pushed(request, partition, Awaited::partition);
    return refuse_block_call(request, code, partition);
  }
  int code = 0;
  const bool unpacks = has(request, PARTITA_PREQUEST_PACKETS);
  if (unpacks) {
    code = await_packets_of(partition, request);
  } else if (block_rank() == 0) {
    code = await_partition(partition, request);
  }
  code = end_wait(code, partition, request);
  if (unpacks && code != 0) take_back_note(*request.state, awaited(request) + partition, request.life);
  return code;
}

}  // namespace partita::device
