// How a collective whose marks push (pushes.cuh) is reduced, by whoever waits. To reduce a partition of an allgather or
// an alltoall is to copy what has come of it to where it belongs; of a bcast nothing is left to be done.
#pragma once

#include <partita/device/impl/in_vain.cuh>
#include <partita/device/impl/pushes.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

// ---- What has come -------------------------------------------------------------------------------------------------

/// The ranks from which blocks come, this one among them unless pushes go straight.
struct RankRange {
  partita_i32 begin;
  partita_i32 end;
};
PARTITA_DEVICE_INLINE RankRange input_ranks(const Partita_Prequest& request) {
  if (pushes_straight(request.collective)) return {request.root, request.root + 1};
  return {0, request.ranks};
}
/// Whether blocks come to this rank. Else its marks end its epochs.
PARTITA_DEVICE_INLINE bool has_inputs(const Partita_Prequest& request) {
  return !pushes_straight(request.collective) || request.rank != request.root;
}

/// The flag by which the thread knows that `rank` has pushed a partition to this rank, or, of this rank itself, to all.
PARTITA_DEVICE_INLINE partita_u32* input_flag(const Partita_Prequest& request, partita_i32 rank, int partition,
                                              Epoch epoch) {
  if (rank == request.rank) return push_words_of(request, push_pushed) + partition;
  return inbox_flag(inbox_of(request, rank), request.send_partitions, partition, epoch);
}

/// One thread: whether all ranks that push it have. There are such.
PARTITA_DEVICE_INLINE bool are_inputs_there(const Partita_Prequest& request, int partition, Epoch epoch) {
  bool all = true;
  const RankRange ranks = input_ranks(request);
  for (partita_i32 rank = ranks.begin; rank < ranks.end; ++rank) {
    const partita_u32* const flag = input_flag(request, rank, partition, epoch);
    all = all && SystemWord<partita_u32>(*const_cast<partita_u32*>(flag)).load(order_before_fence) == epoch;
  }
  acquire_fence();
  return all;
}

/// This thread's part of a block's wait until all of these ranks have pushed it; a barrier tells the block.
PARTITA_DEVICE_INLINE int await_inputs(const Partita_Prequest& request, int partition, Epoch epoch) {
  int code = 0;
  const RankRange ranks = input_ranks(request);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 rank = ranks.begin + static_cast<partita_i32>(block_rank()); code == 0 && rank < ranks.end;
       rank += static_cast<partita_i32>(block_threads())) {
    Patience patience(request);
    partita_u32 seen = 0;
    code = await(WordPoll<SystemWord>{input_flag(request, rank, partition, epoch), epoch}, patience, &seen);
  }
  if (block_rank() < static_cast<partita_u32>(ranks.end - ranks.begin)) acquire_fence();  // of those that have loaded
  return code;
}

/// Where the block that `rank` has for this one lies.
PARTITA_DEVICE_INLINE const unsigned char* input_at(const Partita_Prequest& request, partita_i32 rank, Epoch epoch) {
  if (rank == request.rank) return sent_to(request, rank);
  return inbox_of(request, rank) + inbox_data_at(request.send_partitions, block_bytes(request), epoch);
}

/// Calls body(at, size) for each of this thread's units of a piece, which begins `at` bytes behind the begin of a
/// block.
template <class Body>
PARTITA_DEVICE_INLINE void for_each_unit(const Partita_Prequest& request, int partition, partita_u32 piece,
                                         const Body& body) {
  const auto bytes = static_cast<partita_u64>(request.send_partition_bytes);
  const partita_u64 begin = static_cast<partita_u64>(partition) * bytes;
  const partita_u64 piece_bytes = request.share_units * unit_size_bytes;
  const partita_u64 end = (piece + 1) * piece_bytes < bytes ? (piece + 1) * piece_bytes : bytes;
  const partita_u64 step = unit_size_bytes * block_threads();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u64 at = piece * piece_bytes + unit_size_bytes * block_rank(); at < end; at += step) {
    body(begin + at, bytes_of_unit(bytes - at));
  }
}

/// Calls take(rank, unit) for that unit of each rank's block, in their order. `sources`: so many loads are on their way
/// at once.
template <int sources, class Take>
PARTITA_DEVICE_INLINE void for_each_input(const Partita_Prequest& request, Epoch epoch, partita_u64 at,
                                          partita_u32 size, const Take& take) {
  const partita_i32 ranks = request.ranks;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 first = 0; first < ranks; first += sources) {
    Unit units[sources];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources; ++k) {
      units[k] = first + k < ranks ? load_unit(input_at(request, first + k, epoch) + at, size) : Unit{};
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources; ++k) {
      if (first + k >= ranks) break;
      take(first + k, units[k]);
    }
  }
}

/// This thread's part of a piece of a reduction. The bits of an element do not depend on `sources`.
template <int sources>
PARTITA_DEVICE_INLINE void fold_units(const Partita_Prequest& request, int partition, partita_u32 piece, Epoch epoch) {
  for_each_unit(request, partition, piece, [&](partita_u64 at, partita_u32 size) {
    Held held{};
    for_each_input<sources>(request, epoch, at, size, [&](partita_i32 rank, Unit unit) {
      held = rank == 0 ? begin_fold(request.reduction, unit) : fold_in(request.reduction, held, unit);
    });
    store_unit(request.buffer + at, end_fold(request.reduction, held), size);
  });
}

/// Where what comes from `rank` begins in a receive buffer that has a block of each.
PARTITA_DEVICE_INLINE unsigned char* received_from(const Partita_Prequest& request, partita_i32 rank) {
  return request.buffer + static_cast<partita_u64>(rank) * block_bytes(request);
}

/// This thread's part of a piece where each rank's block has a place of its own.
template <int sources>
PARTITA_DEVICE_INLINE void copy_units(const Partita_Prequest& request, int partition, partita_u32 piece, Epoch epoch) {
  for_each_unit(request, partition, piece, [&](partita_u64 at, partita_u32 size) {
    for_each_input<sources>(request, epoch, at, size, [&](partita_i32 rank, Unit unit) {
      unsigned char* const to = received_from(request, rank);
      if (to != input_at(request, rank, epoch)) store_unit(to + at, unit, size);  // in place the own one lies there
    });
  });
}

/// This thread's part of a piece, whose inputs have come.
template <int sources>
PARTITA_DEVICE_INLINE void reduce_units(const Partita_Prequest& request, int partition, partita_u32 piece,
                                        Epoch epoch) {
  if (pushes_straight(request.collective)) return;
  if (kind_reduces(request.collective)) {
    fold_units<sources>(request, partition, piece, epoch);
  } else {
    copy_units<sources>(request, partition, piece, epoch);
  }
}

/// One thread, behind a barrier of the block that has reduced a piece.
PARTITA_DEVICE_INLINE void end_piece(const Partita_Prequest& request, int partition, Epoch epoch) {
  DeviceWord<partita_u32> pieces(push_words_of(request, push_pieces)[partition]);
  release_fence();
  // Each addition pairs with the last one, behind which all pieces lie.
  if (pieces.fetch_add(1, order_between_fences) + 1 != pieces_of(request)) return;
  acquire_fence();
  pieces.store(0, order::memory_order_relaxed);
  release_fence();
  // Pair with the acquires in await_result and pushed_parrived, and of the host.
  DeviceWord<partita_u32>(push_words_of(request, push_reduced)[partition]).store(epoch, order_after_fence);
  release_fence();  // as behind `completed`
  SystemWord<partita_u32>(told_reduced(request.host, request.send_partitions)[partition])
      .store(epoch, order_after_fence);
  count_towards_end(request, epoch);
}

// ---- Reductions ----------------------------------------------------------------------------------------------------

/// Whether a reduction waits for what has not come, or leaves it to another one.
enum class Inputs : partita_u32 { awaited, only_if_there };

/// Each `stride`th of a request's pieces from `first` on, up to `end`, counted through all partitions.
struct PieceRange {
  partita_u64 first;
  partita_u64 end;
  partita_u32 stride;
};

PARTITA_DEVICE_INLINE DeviceWord<partita_u32> claim_of(const Partita_Prequest& request, partita_u64 piece) {
  return DeviceWord<partita_u32>(push_claims(request.state, request.send_partitions)[piece]);
}
PARTITA_DEVICE_INLINE bool is_claimed(const Partita_Prequest& request, partita_u64 piece, Epoch before) {
  return claim_of(request, piece).load(order::memory_order_relaxed) != before;
}

/// All threads of a block: the first piece from where on it is worth while to claim one, or the end or more. Each
/// thread looks at one at a time, so that a block is soon through pieces that others have.
PARTITA_DEVICE_INLINE partita_u64 skip_claimed(const Partita_Prequest& request, const PieceRange& range, Epoch before) {
  partita_u64 at = range.first;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  while (at < range.end) {
    const partita_u64 own = at + partita_u64{block_rank()} * range.stride;
    if (block_any(own < range.end && !is_claimed(request, own, before))) break;
    at += partita_u64{block_threads()} * range.stride;
  }
  return at;
}

/// One thread: takes on the first piece that nobody else has and, with only_if_there, whose inputs are there. Gives the
/// end or more where there is none.
PARTITA_DEVICE_INLINE partita_u64 claim_piece(const Partita_Prequest& request, const PieceRange& range, Epoch before,
                                              Inputs inputs) {
  const Epoch epoch = next(before);
  partita_u64 piece = range.first;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (; piece < range.end; piece += range.stride) {
    if (is_claimed(request, piece, before)) continue;
    const int partition = static_cast<int>(piece / pieces_of(request));
    if (inputs == Inputs::only_if_there && !are_inputs_there(request, partition, epoch)) continue;
    Epoch unclaimed = before;
    if (claim_of(request, piece)
            .compare_exchange_strong(unclaimed, epoch, order::memory_order_relaxed, order::memory_order_relaxed)) {
      break;
    }
  }
  return piece;
}

/// All threads of a block: reduces those of the pieces that nobody else reduces and, with only_if_there, whose inputs
/// are there. 0, or the code with which this thread's wait ended, where another thread may have another one.
template <int sources>
PARTITA_DEVICE_INLINE int reduce_pieces(const Partita_Prequest& request, PieceRange range, Epoch before,
                                        Inputs inputs) {
  if (!has_inputs(request)) return 0;
  const Epoch epoch = next(before);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (;;) {
    range.first = skip_claimed(request, range, before);
    if (range.first >= range.end) return 0;
    partita_u32 claimed = 0;
    if (block_rank() == 0) {
      // Fewer than 2^32 pieces lie behind `first`, and one more stands for none.
      const partita_u64 piece = claim_piece(request, range, before, inputs);
      claimed = static_cast<partita_u32>((piece < range.end ? piece : range.end) - range.first);
    }
    const partita_u64 piece = range.first + block_broadcast(claimed);
    if (piece >= range.end) return 0;
    const int partition = static_cast<int>(piece / pieces_of(request));
    if (inputs == Inputs::awaited) {
      const int code = await_inputs(request, partition, epoch);
      if (block_any(code != 0)) return code;
    }
    reduce_units<sources>(request, partition, static_cast<partita_u32>(piece % pieces_of(request)), epoch);
    block_barrier();
    if (block_rank() == 0) end_piece(request, partition, epoch);
    range.first = piece + range.stride;
  }
}

PARTITA_DEVICE_INLINE partita_u32 all_pieces(const Partita_Prequest& request) {
  return pieces_of(request) * static_cast<partita_u32>(request.send_partitions);
}

/// A word of this GPU's, until it has come to `wanted`.
struct ReachedPoll {
  partita_u32* word;
  Epoch wanted;

  PARTITA_DEVICE_INLINE Epoch load() const { return DeviceWord<partita_u32>(*word).load(order_before_fence); }
  PARTITA_DEVICE_INLINE bool is_there(Epoch epoch) const { return reached(epoch, wanted); }
};

/// One thread: waits until a word of this GPU's has come to `epoch`, behind which results lie: `started` for all of
/// them, as the host was told by then. Others may have gone on to the next one meanwhile.
PARTITA_DEVICE_INLINE int await_result(const Partita_Prequest& request, partita_u32* word, Epoch epoch) {
  Patience patience(request);
  Epoch seen = no_epoch;
  const int code = await(ReachedPoll{word, epoch}, patience, &seen);
  acquire_fence();  // pairs with the stores in end_piece and count_towards_end
  return code;
}

/// One thread, which has found no epoch open: the results of the newest one are before its eyes.
PARTITA_DEVICE_INLINE void acquire_results(const Partita_Prequest& request) {
  // Pairs with the store in count_towards_end.
  DeviceWord<partita_u32>(request.state->completed).load(order_before_fence);
  acquire_fence();
}

/// All threads of a block, of a request that this life may use: the wait for `partition`, or, if that is -1, for all.
PARTITA_DEVICE_INLINE int await_results(const Partita_Prequest& request, int partition) {
  // One thread looks, or the epoch may end between two looks.
  const bool first = block_rank() == 0;
  Epoch before = no_epoch;
  bool open = false;
  if (first) {
    before = newest_complete(request);
    open = is_open(request, next(before));
  }
  open = block_any(open);
  before = block_broadcast(before);
  // Where none is open, what the caller waits for was over when it came, and is for certain when the host was told.
  const Epoch epoch = open ? next(before) : before;
  int code = 0;
  if (open && partition >= 0) {
    const partita_u64 begin = partita_u64{pieces_of(request)} * static_cast<partita_u32>(partition);
    code = reduce_pieces<1>(request, {begin, begin + pieces_of(request), 1}, before, Inputs::awaited);
  } else if (open) {
    // The host launches nothing in its place, unless the wait takes long.
    if (first) SystemWord<partita_u32>(request.host->awaited).store(epoch, order::memory_order_relaxed);
    // Blocks that wait at the same time begin at different pieces.
    const partita_u64 all = all_pieces(request);
    const partita_u64 begin = grid_rank() * all / grid_blocks();
    code = reduce_pieces<1>(request, {begin, all, 1}, before, Inputs::awaited);
    if (!block_any(code != 0)) code = reduce_pieces<1>(request, {0, begin, 1}, before, Inputs::awaited);
  }
  if (!block_any(code != 0)) {
    // Other blocks, or a launch, may have taken some of them.
    partita_u32* const word =
        open && partition >= 0 ? push_words_of(request, push_reduced) + partition : &request.state->started;
    if (first) code = await_result(request, word, epoch);
  }
  return block_any(code != 0) ? end_in_vain(request, code, epoch) : 0;
}

// ---- Waits and looks -----------------------------------------------------------------------------------------------

/// What a block waits for: one partition (MPIX_Pwait_partition), or all of them (MPIX_Pwait).
enum class Awaited : partita_u32 { partition, all };

PARTITA_DEVICE_OUT_OF_LINE int await_out_of_line(Partita_Prequest_state* state, partita_u32 life, int partition,
                                                 Awaited awaited) {
  const int code = refusal_of_pushed(*state, life);
  if (block_any(code != 0)) return code != 0 ? code : PARTITA_DEVICE_ERR_ABORTED;
  const Partita_Prequest& request = *copy_of_request(state);
  if (awaited == Awaited::all) return await_results(request, -1);
  if (static_cast<partita_u32>(partition) >= static_cast<partita_u32>(request.send_partitions)) {
    return refuse_block_call(request, PARTITA_DEVICE_ERR_PARTITION, partition);
  }
  return await_results(request, partition);
}
/// All threads of a block: a wait on one whose marks push.
PARTITA_DEVICE_INLINE int await_pushed(const Partita_Prequest& request, int partition, Awaited awaited) {
  return await_out_of_line(request.state, request.life, partition, awaited);
}

/// One thread: MPIX_Parrived of one whose marks push.
PARTITA_DEVICE_INLINE int pushed_parrived(const Partita_Prequest& request, int partition, int* flag) {
  if (const int code = refusal_of_pushed(*request.state, request.life)) return code;
  if (static_cast<partita_u32>(partition) >= static_cast<partita_u32>(request.send_partitions)) {
    return refuse(request, PARTITA_DEVICE_ERR_PARTITION, partition);
  }
  const Epoch epoch = next(newest_complete(request));
  // Pairs with the store in end_piece.
  const Epoch reduced =
      DeviceWord<partita_u32>(push_words_of(request, push_reduced)[partition]).load(order::memory_order_acquire);
  *flag = reached(reduced, epoch) ? 1 : 0;
  if (*flag == 0 && pushes_straight(request.collective) && has_inputs(request)) {
    *flag = are_inputs_there(request, partition, epoch) ? 1 : 0;  // nobody has to reduce it first
  }
  if (*flag == 0 && !is_open(request, epoch)) {  // where no epoch is open all have arrived
    acquire_results(request);
    *flag = 1;
  }
  return PARTITA_DEVICE_SUCCESS;
}

}  // namespace partita::device
