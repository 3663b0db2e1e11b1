// Pready in its granularities.
#pragma once

#include <partita/device/impl/pushes.cuh>
#include <partita/device/impl/send.cuh>

namespace partita::device {

/// Up to this size one warp copies a partition for its whole block: the others have nothing to fetch that it has not.
inline constexpr partita_i64 one_warp_bytes = 512;

/// One thread, its own partition, with nobody's help.
PARTITA_DEVICE_INLINE int pready_thread(int partition, const Partita_Prequest& request) {
  if (is_pushed(request.flags)) return push(request, partition, Marker::thread);
  const Mark mark = make_mark(partition, request);
  if (mark.code != 0) return code_of_refusal(mark.code, request.flags);
  if (moves_bytes(request, mark.deferred)) {
    const partita_i64 bytes = request.send_partition_bytes;
    move(request, partition * bytes, bytes, mark.epoch, {0, 1});
  }
  settle_one(request, partition, mark);
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
PARTITA_DEVICE_INLINE int pready(int partition, const Partita_Prequest& request) {
  if (is_pushed(request.flags)) return push(request, partition, Marker::lanes);
  Lanes lanes = lanes_with_same(active_lanes(), static_cast<const void*>(request.state));

  Mark mark{refusal_of(partition, request, false), no_epoch, false, false, 0, 0};
  if (mark.code == 0) mark = count_mark(partition, request);
  // The first vote comes before all else: its result is who runs along.
  lanes = lanes_where(lanes, mark.code == 0);
  if (mark.code != 0 && !is_made(request)) return code_of_refusal(mark.code, request.flags);
  if (mark.code != 0) return refuse_mark(partition, request, mark.code, mark.epoch);
  const Lanes curious = lanes_where(lanes, must_ask(mark, request));
  if (curious != 0) {
    partita_u32 answer = 0;
    if (own_lane() == (curious & (0u - curious))) {
      answer = static_cast<partita_u32>(look_at_promise(request, mark.epoch));
    }
    answer = value_of_lane(lanes, answer, first_of(curious));
    if (must_ask(mark, request)) mark = judge(mark, static_cast<Promise>(answer), request);
    lanes = lanes_where(lanes, mark.code == 0);
    if (mark.code != 0) return refuse_mark(partition, request, mark.code, mark.epoch);
  }

  if (announces_together(request)) enter_group(partition, request);
  const Lanes deferred = lanes_where(lanes, mark.deferred);
  lanes_barrier(lanes);  // every lane's bytes lie before every lane's eyes
  if (moves_bytes(request, mark.deferred)) {
    move_partitions_of(lanes & ~deferred, partition, request, mark.epoch);
  }
  lanes_barrier(lanes);

  const Run run = run_of(partition, request);
  Lanes group = lanes;
  if (request.transport_partitions == request.send_partitions) {
    group = own_lane();
  } else if (request.transport_partitions != 1) {
    group = lanes_with_same(lanes, static_cast<partita_u32>(run.t));
  }
  if (rank_in(group) == 0) settle(request, run, count_of(group), count_of(group & deferred), mark);
  return PARTITA_DEVICE_SUCCESS;
}

/// All lanes of a warp, the same partition.
PARTITA_DEVICE_INLINE int pready_warp(int partition, const Partita_Prequest& request) {
  if (is_pushed(request.flags)) return push(request, partition, Marker::warp);
  const Lanes lanes = lanes_of_warp();
  if (announces_together(request)) lanes_barrier(lanes);  // no mark is inside while lanes are still at their work
  Mark mark{0, no_epoch, false, false, 0, 0};
  if (lane() == 0) mark = make_mark(partition, request);
  lanes_barrier(lanes);  // every lane's bytes lie before every lane's eyes; shuffles order nothing
  const int code = static_cast<int>(value_of_lane(lanes, static_cast<partita_u32>(mark.code), 0));
  if (code != 0) return code_of_refusal(code, request.flags);
  const bool deferred = value_of_lane(lanes, mark.deferred ? 1 : 0, 0) != 0;
  mark.epoch = value_of_lane(lanes, mark.epoch, 0);

  if (moves_bytes(request, deferred)) {
    const partita_i64 bytes = request.send_partition_bytes;
    move(request, partition * bytes, bytes, mark.epoch, {lane(), count_of(lanes)});
    lanes_barrier(lanes);
  }
  if (lane() == 0) settle_one(request, partition, mark);
  return PARTITA_DEVICE_SUCCESS;
}

/// Steps 1 to 3 of a block's mark in packets. Every thread sees for itself that the epoch is open.
PARTITA_DEVICE_INLINE Mark send_block(int partition, const Partita_Prequest& request) {
  const Team team{block_rank(), block_threads()};
  const partita_i64 offset = partition * request.send_partition_bytes;
  const partita_u32 packets = packets_of(request.send_partition_bytes);
  const unsigned char* const from = request.buffer + offset;

  // Everything that is needed is on its way at once: the bytes, where the request stands, the mark's count.
  const partita_u64 data = team.rank < packets ? load_data(from, team.rank) : 0;
  const Standing standing = read_device_driven(*request.state);
  const partita_u32 before = team.rank == 0 ? add_mark(partition, request) : 0;
  unsigned char* const slots = packet_slots(request, offset);
  unsigned char* const first_slot = worked_out_now(slots + packet_bytes * team.rank);
  if (may_store(standing, request)) {
    const Epoch epoch = low_half(standing.head);
    if (team.rank < packets) send_packet(first_slot, 0, data, epoch);
    send_packets(slots, from, team.count, packets, epoch, team);
  }
  return begin_mark(request, before, standing);
}

/// A block's copy of a partition. The loads of the first bytes are on their way when it is made.
class BlockCopy {
 public:
  PARTITA_DEVICE_INLINE BlockCopy(int partition, const Partita_Prequest& request)
      : request_(request), offset_(partition * request.send_partition_bytes), team_(copying_team(request)) {
    if (team_.count == 0) return;
    ahead_ = load_ahead(request_.buffer + offset_, request_.send_partition_bytes, request_.unit_bytes, team_);
  }
  PARTITA_DEVICE_INLINE void store() {
    if (team_.count == 0) return;
    const partita_i64 size_bytes = request_.send_partition_bytes;
    unsigned char* const to = request_.remote + offset_;
    const partita_i64 done = store_ahead(to, size_bytes, request_.unit_bytes, team_, ahead_);
    copy_rest(to, request_.buffer + offset_, done, size_bytes, request_.unit_bytes, team_);
  }

 private:
  /// Those threads of the block that copy.
  PARTITA_DEVICE_INLINE static Team copying_team(const Partita_Prequest& request) {
    if (!moves_bytes(request, false)) return {0, 0};
    if (request.send_partition_bytes > one_warp_bytes) return {block_rank(), block_threads()};
    return {lane(), warp_of_block() == 0 ? count_of(lanes_of_warp()) : 0};
  }

  const Partita_Prequest& request_;
  partita_i64 offset_;
  Team team_;
  Ahead ahead_{};
};

/// Steps 1 and 2 of a block's mark with plain stores, device-driven: whether this thread may store. `head` stays as it
/// is until the partition is marked, so that every thread can look for itself.
PARTITA_DEVICE_INLINE bool begin_block_device_driven(int partition, const Partita_Prequest& request, Mark* mark) {
  const Standing standing = read_device_driven(*request.state);
  const partita_u32 before = block_rank() == 0 ? add_mark(partition, request) : 0;
  *mark = begin_mark(request, before, standing);
  return may_store(standing, request);
}

/// The same, host-driven. `*mark` counts in thread 0.
PARTITA_DEVICE_INLINE bool begin_block_host_driven(int partition, const Partita_Prequest& request, Mark* mark) {
  const bool first = block_rank() == 0;
  if (first) {
    const partita_u32 before = add_mark(partition, request);
    *mark = begin_mark(request, before, read_host_driven(*request.state));  // it acquires: the mark goes ahead
  }
  // One barrier tells all threads the usual case: the receiver was seen ready. The rest is worth more of them.
  if (!block_any(first && (mark->code != 0 || must_ask(*mark, request)))) return true;
  if (first) mark->code = code_of_count(*mark, request);  // a second mark must not ask: the epoch may end meanwhile
  if (first && must_ask(*mark, request)) *mark = judge(*mark, look_at_promise(request, mark->epoch), request);
  return block_broadcast(mark->code == 0 && !mark->deferred ? 1 : 0) != 0;
}

/// A block's mark enters its group, unless it is refused already. By thread 0; the thread that leaves is the same, or
/// behind a barrier.
PARTITA_DEVICE_INLINE void enter_for_block(int partition, const Partita_Prequest& request, const Mark& mark) {
  if (mark.code == 0 && announces_together(request)) enter_group(partition, request);
}

/// Steps 1 to 3 of a block's mark where its threads move the bytes.
PARTITA_DEVICE_INLINE Mark move_block(int partition, const Partita_Prequest& request) {
  if (has(request, PARTITA_PREQUEST_PACKETS)) return send_block(partition, request);
  BlockCopy copy(partition, request);
  Mark mark{};
  const bool stores = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)
                          ? begin_block_device_driven(partition, request, &mark)
                          : begin_block_host_driven(partition, request, &mark);
  if (block_rank() == 0) enter_for_block(partition, request, mark);
  if (stores) copy.store();
  return mark;
}

/// Step 1 of a block's mark where the progress engine moves the bytes. Two threads, of two warps if there are as many,
/// share the mark: while thread 0's is counted, the fence of the one that settles waits for the block's bytes.
PARTITA_DEVICE_INLINE Mark begin_hand_over(int partition, const Partita_Prequest& request, bool settles) {
  const bool counts = block_rank() == 0;
  Mark mark{};
  if (counts || settles) {
    const partita_u32 before = counts ? add_mark(partition, request) : 0;
    const Standing standing = read_host_driven(*request.state, order::memory_order_relaxed);
    // Else nothing is counted before announce.
    if (settles && (request.marks_each != 1 || announces_together(request))) release_fence_on_device();
    mark = begin_mark(request, before, standing);
    mark.deferred = true;
    if (counts) enter_for_block(partition, request, mark);
  }
  return mark;
}

/// All threads of a block, the same partition. Kernels have one call of settle here: with more they spill.
PARTITA_DEVICE_INLINE int pready_block(int partition, const Partita_Prequest& request) {
  if (const int code = refusal_of(partition, request, false)) {
    if (is_pushed(request.flags)) return push(request, partition, Marker::block);
    return refuse_block_call(request, code, partition);
  }
  block_barrier();  // every thread's bytes lie before every thread's eyes
  const bool first = block_rank() == 0;
  const bool to_engine = hands_over(request);
  const bool settles = to_engine ? block_rank() == block_threads() - 1 : first;
  Mark mark = to_engine ? begin_hand_over(partition, request, settles) : move_block(partition, request);
  const bool entered = first && mark.code == 0 && announces_together(request);
  if (first) mark.code = code_of_count(mark, request);
  // A barrier: the block's bytes lie before the eyes of the thread that settles, and the first thread's addition is
  // over. A thread that saw the request freed or released has stored nothing, so that the mark must not count, whatever
  // thread 0 saw.
  const bool refused = block_any(mark.code != 0);
  if (refused && first) {
    if (mark.code == 0) mark.code = PARTITA_DEVICE_ERR_ABORTED;
    refuse_mark(partition, request, mark.code, mark.epoch);
  }
  if (refused ? entered : settles) {
    settle(request, run_of(partition, request), 1, mark.deferred ? 1 : 0, mark, to_engine, refused);
  }
  return refused ? static_cast<int>(block_broadcast(static_cast<partita_u32>(mark.code))) : PARTITA_DEVICE_SUCCESS;
}

/// One thread, partitions `first` to `last`, both included, of one epoch: where marks complete that and the host opens
/// the next one, those that follow do not count. Marks that do not count are left out; the first such code comes back.
PARTITA_DEVICE_INLINE int pready_range(int first, int last, const Partita_Prequest& request) {
  if (!is_made_with(request, PARTITA_PREQUEST_SEND)) {
    if (is_pushed(request.flags)) return push_range(request.state, request.host, request.life, first, last);
    return refuse(request, PARTITA_DEVICE_ERR_SIDE, first);
  }
  if (first < 0 || first > last || last >= request.send_partitions) {
    return fail(request, PARTITA_DEVICE_ERR_PARTITION, first < 0 || first > last ? first : last, no_epoch);
  }
  const partita_i64 bytes = request.send_partition_bytes;
  int result = PARTITA_DEVICE_SUCCESS;
  Epoch epoch = no_epoch;
  partita_u32 inside = 0;    // marks that have not left the group
  partita_u64 complete = 0;  // what they have completed of it
  for (partita_i64 partition = first; partition <= last;) {
    const Run run = run_of(static_cast<partita_i32>(partition), request);
    partita_u32 count = 0;
    partita_u32 deferred = 0;
    Mark counted{};
    for (; partition < run.sends.end && partition <= last; ++partition) {
      Mark mark = make_mark(static_cast<int>(partition), request);
      if (epoch == no_epoch) epoch = mark.epoch;
      if (mark.code == 0 && mark.epoch != epoch) {
        mark.code = refuse_mark(static_cast<int>(partition), request, PARTITA_DEVICE_ERR_TWICE, epoch);
        ++inside;
      }
      if (mark.code != 0) {
        if (result == PARTITA_DEVICE_SUCCESS) result = mark.code;
        continue;
      }
      if (moves_bytes(request, mark.deferred)) move(request, partition * bytes, bytes, mark.epoch, {0, 1});
      counted = mark;
      ++count;
      if (mark.deferred) ++deferred;
    }
    if (!announces_together(request)) {
      if (count != 0) settle(request, run, count, deferred, counted);
      continue;
    }
    if (count != 0) complete |= completed_by(request, run, count, deferred, false);
    inside += count;
    // Others of the group wait for one transport partition, or for a few marks that copy nothing.
    const bool copied = count > deferred && moves_bytes(request, false);
    const bool stays =
        request.marks_each == 1 && !copied && partition <= last && group_of(run.t + 1) == group_of(run.t);
    if (stays || inside == 0) continue;
    leave_group(request, run.t, inside, complete, false);
    if (count != 0) check_if_handing_over(request, run, counted);
    inside = 0;
    complete = 0;
  }
  return result;
}

/// Where partition `partition` lies in the receiver's memory; null where kernels do not store there themselves.
PARTITA_DEVICE_INLINE void* pbuffer(int partition, const Partita_Prequest& request) {
  const bool recv = has(request, PARTITA_PREQUEST_RECV);
  if (const int code = refusal_of(partition, request, recv)) {
    refuse(request, code, partition);
    return nullptr;
  }
  if (recv) return request.buffer + partition * request.recv_partition_bytes;
  if (!has(request, PARTITA_PREQUEST_IN_PLACE) || request.remote == nullptr) return nullptr;
  if (DeviceWord<partita_u32>(request.state->live).load(order::memory_order_relaxed) != request.life) return nullptr;

  // As in read_host_driven: the bytes that the caller stores come after the receiver's credit.
  const partita_u64 head = DeviceWord<partita_u64>(request.state->head).load(order::memory_order_acquire);
  const Epoch epoch = low_half(head);
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  int code = high_half(head) == epoch ? 0 : PARTITA_DEVICE_ERR_UNPREPARED;
  if (device_driven && is_complete(read_device_driven(*request.state), request)) code = PARTITA_DEVICE_ERR_INACTIVE;
  if (code != 0 && !device_driven) {
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
