// Pready in its granularities.
#pragma once

#include <partita/device/impl/send.cuh>

namespace partita::device {

/// Up to this size one warp copies a partition for its whole block: the others have nothing to fetch that it has not.
inline constexpr partita_i64 one_warp_bytes = 1024;

/// One thread, its own partition, with nobody's help.
MPIX_Device inline int pready_thread(int partition, const Partita_Prequest& request) {
  const Mark mark = make_mark(partition, request);
  if (mark.code != 0) return mark.code;
  const Plan plan = plan_of(request);
  if (moves_bytes(request, mark.deferred)) {
    const partita_i64 bytes = request.send_partition_bytes;
    move(request, partition * bytes, bytes, mark.epoch, {0, 1});
  }
  settle(request, plan, plan.transport_of_send(partition), 1, mark.deferred ? 1 : 0, mark.epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// The lanes `movers` move their partitions together; each of them calls.
PARTITA_DEVICE_INLINE void move_partitions_of(Lanes movers, int partition, const Partita_Prequest& request,
                                              Epoch epoch) {
  const partita_i64 bytes = request.send_partition_bytes;
  const Team all{rank_in(movers), count_of(movers)};
  const partita_u32 own = static_cast<partita_u32>(partition);
  const partita_u32 first = value_of_lane(movers, own, first_of(movers));
  const bool neighbours = lanes_where(movers, own == first + all.rank) == movers;
  const bool tiny = bytes < 16 * partita_i64{warp_threads};
  // Neighbours are one piece of the buffer, copied together. Others are copied together one after the other or, if they
  // are tiny, each by its own lane.
  const bool one_piece = neighbours || tiny;
  const partita_i64 size_bytes = neighbours ? bytes * all.count : bytes;
  const Team team = one_piece && !neighbours ? Team{0, 1} : all;
  for (Lanes left = one_piece ? own_lane() : movers; left != 0; left &= left - 1) {
    const partita_u32 whose = one_piece ? own : value_of_lane(movers, own, first_of(left));
    move(request, (neighbours ? first : whose) * bytes, size_bytes, epoch, team);
  }
}

/// Any thread, its own partition; whoever runs along in its warp is helped and helps. Every lane that begins stays to
/// the end of its group, so the masks hold in divergent code.
MPIX_Device inline int pready(int partition, const Partita_Prequest& request) {
  Lanes lanes = lanes_with_same(active_lanes(), static_cast<const void*>(request.state));

  Mark mark = count_mark(partition, request);
  lanes = lanes_where(lanes, mark.code == 0);
  if (mark.code != 0) return mark.code;

  const Lanes curious = lanes_where(lanes, !mark.noted);
  if (curious != 0) {
    partita_u32 answer = 0;
    if (own_lane() == (curious & (0u - curious))) {
      answer = static_cast<partita_u32>(look_at_promise(request, mark.epoch));
    }
    answer = value_of_lane(lanes, answer, first_of(curious));
    mark = judge(mark, mark.noted ? Promise::ready : static_cast<Promise>(answer), partition, request);
    lanes = lanes_where(lanes, mark.code == 0);
    if (mark.code != 0) return mark.code;
  } else {
    mark = judge(mark, Promise::ready, partition, request);
  }

  const Plan plan = plan_of(request);
  const Lanes deferred = lanes_where(lanes, mark.deferred);
  lanes_barrier(lanes);  // every lane's bytes lie before every lane's eyes
  if (moves_bytes(request, mark.deferred)) {
    move_partitions_of(lanes & ~deferred, partition, request, mark.epoch);
  }
  lanes_barrier(lanes);

  const partita_i32 t = plan.transport_of_send(partition);
  Lanes group = lanes;
  if (request.transport_partitions == request.send_partitions) {
    group = own_lane();
  } else if (request.transport_partitions != 1) {
    group = lanes_with_same(lanes, static_cast<partita_u32>(t));
  }
  if (rank_in(group) == 0) settle(request, plan, t, count_of(group), count_of(group & deferred), mark.epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// All lanes of a warp, the same partition.
MPIX_Device inline int pready_warp(int partition, const Partita_Prequest& request) {
  const Lanes lanes = lanes_of_warp();
  Mark mark{0, no_epoch, false, false, 0};
  if (lane() == 0) mark = make_mark(partition, request);
  lanes_barrier(lanes);  // every lane's bytes lie before every lane's eyes; shuffles order nothing
  const int code = static_cast<int>(value_of_lane(lanes, static_cast<partita_u32>(mark.code), 0));
  if (code != 0) return code;
  const bool deferred = value_of_lane(lanes, mark.deferred ? 1 : 0, 0) != 0;
  mark.epoch = value_of_lane(lanes, mark.epoch, 0);

  const Plan plan = plan_of(request);
  if (moves_bytes(request, deferred)) {
    const partita_i64 bytes = request.send_partition_bytes;
    move(request, partition * bytes, bytes, mark.epoch, {lane(), count_of(lanes)});
    lanes_barrier(lanes);
  }
  if (lane() == 0) settle(request, plan, plan.transport_of_send(partition), 1, deferred ? 1 : 0, mark.epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// What a block moves of a partition: what each thread holds already, and where the rest is.
struct BlockMove {
  Team team;  ///< of no thread: this one does not take part
  bool packets;
  unsigned char* to;
  const unsigned char* from;
  partita_i64 size_bytes;
  TwoPackets two_packets;
  Ahead ahead;
};

/// The loads are on their way when it returns. `partition` exists.
PARTITA_DEVICE_INLINE BlockMove begin_move(int partition, const Partita_Prequest& request) {
  BlockMove move{};
  move.size_bytes = request.send_partition_bytes;
  move.packets = has(request, PARTITA_PREQUEST_PACKETS);
  const partita_i64 offset = partition * move.size_bytes;
  move.from = request.buffer + offset;
  move.to = move.packets ? packet_slots(request, offset) : request.remote + offset;
  move.team = Team{block_rank(), block_threads()};
  if (move.packets) {
    move.two_packets = first_packets(move.from, move.size_bytes, move.team);
    return move;
  }
  if (move.size_bytes <= one_warp_bytes) {
    move.team = Team{lane(), warp_of_block() == 0 ? count_of(lanes_of_warp()) : 0};
  }
  if (move.team.count != 0) move.ahead = load_ahead(move.to, move.from, move.size_bytes, move.team);
  return move;
}

PARTITA_DEVICE_INLINE void end_move(const BlockMove& move, Epoch epoch) {
  if (move.packets) {
    send_packets(move.to, move.from, move.size_bytes, epoch, move.team, move.two_packets);
  } else if (move.team.count != 0) {
    const partita_i64 done = store_ahead(move.to, move.size_bytes, move.team, move.ahead);
    if (done < move.size_bytes) copy(move.to + done, move.from + done, move.size_bytes - done, move.team);
  }
}

/// The end of a block's mark whose bytes have been moved: thread 0 looks at its count and settles it. A barrier.
PARTITA_DEVICE_INLINE int settle_block(Mark mark, int partition, const Partita_Prequest& request, bool deferred) {
  const bool first = block_rank() == 0;
  if (first) mark.code = end_mark(mark, partition, request);
  if (block_any(mark.code != 0)) return static_cast<int>(block_broadcast(static_cast<partita_u32>(mark.code)));
  const Plan plan = plan_of(request);
  if (first) settle(request, plan, plan.transport_of_send(partition), 1, deferred ? 1 : 0, mark.epoch);
  return PARTITA_DEVICE_SUCCESS;
}

/// All threads of a block, the same partition.
MPIX_Device inline int pready_block(int partition, const Partita_Prequest& request) {
  block_barrier();  // every thread's bytes lie before every thread's eyes
  const bool first = block_rank() == 0;
  const bool exists = static_cast<partita_u32>(partition) < static_cast<partita_u32>(request.send_partitions) &&
                      !has(request, PARTITA_PREQUEST_RECV);
  bool deferred = request.remote == nullptr;

  // Everything that is needed is on its way at once: the bytes, and where the request stands. `head` of a device-driven
  // request stays as it is until the partition is marked, so that every thread can look for itself.
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  const bool moves = exists && moves_bytes(request, deferred);
  BlockMove move{};
  if (moves) move = begin_move(partition, request);
  Standing standing{};
  partita_u32 before = 0;
  if (exists && device_driven) standing = read_standing(request);
  if (exists && first) before = add_mark(partition, request);
  if (exists && first && !device_driven) standing = read_standing(request);  // it acquires: the mark goes ahead
  const Epoch epoch = low_half(standing.head);
  bool may_store = high_half(standing.head) == epoch && standing.live == 1;
  Mark mark{0, no_epoch, true, false, 0};
  if (first) {
    mark.code = check_mark(partition, request);
    if (mark.code == 0) mark = begin_mark(partition, request, before, standing);
  }

  if (!device_driven) {
    // One barrier tells all threads the usual case: the receiver was seen ready. The rest is worth more of them.
    may_store = true;
    if (block_any(mark.code != 0 || !mark.noted)) {
      if (first && mark.code == 0) mark = judge(mark, look_at_promise(request, mark.epoch), partition, request);
      const partita_u32 decision = block_broadcast(static_cast<partita_u32>(mark.code) << 1 | (mark.deferred ? 1 : 0));
      if (decision >> 1 != 0) return static_cast<int>(decision >> 1);
      deferred = decision != 0;
    }
  }
  if (moves && may_store && !deferred) end_move(move, epoch);
  return settle_block(mark, partition, request, deferred);
}

/// One thread, partitions `first` to `last`, both included. Marks that do not count are left out; the first such code
/// comes back.
MPIX_Device inline int pready_range(int first, int last, const Partita_Prequest& request) {
  if (has(request, PARTITA_PREQUEST_RECV)) return fail(request, PARTITA_DEVICE_ERR_SIDE, first, no_epoch);
  if (first < 0 || first > last || last >= request.send_partitions) {
    return fail(request, PARTITA_DEVICE_ERR_PARTITION, first < 0 || first > last ? first : last, no_epoch);
  }
  const Plan plan = plan_of(request);
  const partita_i64 bytes = request.send_partition_bytes;
  int result = PARTITA_DEVICE_SUCCESS;
  for (partita_i64 partition = first; partition <= last;) {
    const partita_i32 t = plan.transport_of_send(partition);
    const partita_i64 end = plan.send_run(t).end;
    partita_u32 count = 0;
    partita_u32 deferred = 0;
    Epoch epoch = no_epoch;
    for (; partition < end && partition <= last; ++partition) {
      const Mark mark = make_mark(static_cast<int>(partition), request);
      if (mark.code != 0) {
        if (result == PARTITA_DEVICE_SUCCESS) result = mark.code;
        continue;
      }
      if (moves_bytes(request, mark.deferred)) move(request, partition * bytes, bytes, mark.epoch, {0, 1});
      epoch = mark.epoch;
      ++count;
      if (mark.deferred) ++deferred;
    }
    if (count != 0) settle(request, plan, t, count, deferred, epoch);
  }
  return result;
}

/// Where partition `partition` lies in the receiver's memory; null where kernels do not store there themselves.
MPIX_Device inline void* pbuffer(int partition, const Partita_Prequest& request) {
  const bool recv = has(request, PARTITA_PREQUEST_RECV);
  const partita_i32 partitions = recv ? request.recv_partitions : request.send_partitions;
  if (static_cast<partita_u32>(partition) >= static_cast<partita_u32>(partitions)) {
    fail(request, PARTITA_DEVICE_ERR_PARTITION, partition, no_epoch);
    return nullptr;
  }
  if (recv) return request.buffer + partition * request.recv_partition_bytes;
  if (!has(request, PARTITA_PREQUEST_IN_PLACE) || request.remote == nullptr) return nullptr;

  // As in count_mark: the bytes that the caller stores come after the receiver's credit.
  const partita_u64 head = DeviceWord<partita_u64>(request.state->head).load(order::memory_order_acquire);
  const Epoch epoch = low_half(head);
  int code = high_half(head) == epoch ? 0 : PARTITA_DEVICE_ERR_UNPREPARED;
  if (code != 0 && !has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)) {
    const Promise promise = look_at_promise(request, epoch);
    if (promise == Promise::ready) code = 0;
    if (promise == Promise::not_started) code = PARTITA_DEVICE_ERR_INACTIVE;
  }
  if (code != 0) {
    fail(request, code, partition, epoch);
    return nullptr;
  }
  return request.remote + partition * request.send_partition_bytes;
}

}  // namespace partita::device
