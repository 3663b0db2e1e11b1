// How a collective that kernels do moves large data: by loads and stores in the peers' buffers. Each rank has a share
// of the work, which it alone does, for all ranks: nothing is stored twice on the way.
#pragma once

#include <partita/device/impl/collective_terms.cuh>
#include <partita/device/impl/grid.cuh>
#include <partita/device/impl/units.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

// ---- Who moves what ------------------------------------------------------------------------------------------------

PARTITA_DEVICE_INLINE unsigned char* receive_buffer_of(const Partita_Prequest& request, partita_i32 rank) {
  return request.peers[rank].buffer;
}
PARTITA_DEVICE_INLINE unsigned char* send_buffer_of(const Partita_Prequest& request, partita_i32 rank) {
  return request.peers[request.ranks + rank].buffer;
}

PARTITA_DEVICE_INLINE UnitRange all_units(const Partita_Prequest& request) {
  return {0, units_of(block_bytes(request))};
}

/// Into so many parts a block is divided, each of which one rank moves. What two ranks have for each other is divided
/// between these two.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u32 parts_of_block(const Partita_Prequest& request) {
  const partita_u32 ranks = static_cast<partita_u32>(request.ranks);
  if (kind == PARTITA_COLLECTIVE_ALLREDUCE) return ranks;
  if (kind == PARTITA_COLLECTIVE_ALLTOALL) return 2;
  return is_rooted<kind> && ranks > 1 ? ranks - 1 : 1;
}

/// Whether this rank moves anything. The root has enough to do: it is all other ranks' source.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE bool moves_a_part(const Partita_Prequest& request) {
  return !is_rooted<kind> || request.rank != request.root;
}

/// Which part that is. `other`: of an alltoall, the rank with which it exchanges it.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u32 own_part(const Partita_Prequest& request, partita_i32 other) {
  if (kind == PARTITA_COLLECTIVE_ALLREDUCE) return static_cast<partita_u32>(request.rank);
  if (kind == PARTITA_COLLECTIVE_ALLTOALL) return request.rank < other ? 0 : 1;
  if (!is_rooted<kind>) return 0;
  const partita_i32 behind_root = request.rank - request.root;
  return static_cast<partita_u32>(behind_root > 0 ? behind_root : behind_root + request.ranks) - 1;
}

/// All ranks have the same strips: of the first part, which is the longest.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u32 strips_in_buffers(const Partita_Prequest& request) {
  return strips_of_buffers(part_of(all_units(request), parts_of_block<kind>(request), 0));
}

// ---- Loads and stores ----------------------------------------------------------------------------------------------

// Those of a peer's memory need no special ones: acquired flags lie between them and what others have stored there.

/// How a thread goes over its units of a range: whole ones at multiples of 16 bytes, several at once, ...
struct WholeUnits {
  PARTITA_DEVICE_INLINE Unit load(const unsigned char* from, partita_u64) const {
    return *reinterpret_cast<const Unit*>(from);
  }
  PARTITA_DEVICE_INLINE void store(unsigned char* to, const Unit& unit, partita_u64) const {
    *reinterpret_cast<Unit*>(to) = unit;
  }
  static constexpr int at_once = 2;
  static constexpr int reduced_at_once = 1;
};
/// ... or one by one any others, in words of 8 bytes where that divides all addresses, `bytes`. The last unit of a
/// block may be shorter, by `left`.
struct AnyUnits {
  partita_u32 bytes;

  PARTITA_DEVICE_INLINE Unit load(const unsigned char* from, partita_u64 left) const {
    if (bytes < sizeof(partita_u64) || left < unit_size_bytes) return load_bytes(from, bytes_of_unit(left));
    const auto* const words = reinterpret_cast<const partita_u64*>(from);
    return {words[0], words[1]};
  }
  PARTITA_DEVICE_INLINE void store(unsigned char* to, const Unit& unit, partita_u64 left) const {
    if (bytes < sizeof(partita_u64) || left < unit_size_bytes) return store_bytes(to, unit, bytes_of_unit(left));
    auto* const words = reinterpret_cast<partita_u64*>(to);
    words[0] = unit.low;
    words[1] = unit.high;
  }
  static constexpr int at_once = 1;
  static constexpr int reduced_at_once = 1;
};

/// The units of a range that a thread has on their way at once.
template <int count>
struct Batch {
  partita_u64 first;
  partita_u64 stride;
  partita_u64 end;

  PARTITA_DEVICE_INLINE bool has(int i) const { return unit(i) < end; }
  PARTITA_DEVICE_INLINE partita_u64 unit(int i) const { return first + static_cast<partita_u64>(i) * stride; }
  PARTITA_DEVICE_INLINE partita_u64 offset(int i) const { return unit(i) * unit_size_bytes; }

  template <class Way>
  PARTITA_DEVICE_INLINE void load(const Way& way, const unsigned char* block, partita_u64 bytes,
                                  Unit (&units)[count]) const {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int i = 0; i < count; ++i) {
      if (has(i)) units[i] = way.load(block + offset(i), bytes - offset(i));
    }
  }
  template <class Way>
  PARTITA_DEVICE_INLINE void store(const Way& way, unsigned char* block, partita_u64 bytes,
                                   const Unit (&units)[count]) const {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int i = 0; i < count; ++i) {
      if (has(i)) way.store(block + offset(i), units[i], bytes - offset(i));
    }
  }
};

/// Calls body(batch) until the calling thread has been over its units of `range`.
template <int count, class Body>
PARTITA_DEVICE_INLINE void for_each_batch(const UnitRange& range, const Body& body) {
  const partita_u64 threads = block_threads();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u64 first = range.begin + block_rank(); first < range.end; first += count * threads) {
    body(Batch<count>{first, threads, range.end});
  }
}

// ---- A range of units ----------------------------------------------------------------------------------------------

/// From one block to that of each rank, but for the root, and but for where it comes from.
template <partita_u32 kind, class Way>
PARTITA_DEVICE_INLINE void spread(const Partita_Prequest& request, const UnitRange& range, const Way& way) {
  const unsigned char* const from = is_rooted<kind> ? send_buffer_of(request, request.root) : request.sent;
  for_each_batch<Way::at_once>(range, [&](const Batch<Way::at_once>& batch) {
    Unit units[Way::at_once];
    batch.load(way, from, block_bytes(request), units);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_i32 n = 0; n < request.ranks; ++n) {
      const partita_i32 rank = rank_behind(request, n);
      if (is_rooted<kind> && rank == request.root) continue;
      unsigned char* const to = receive_buffer_of(request, rank) + received_at<kind>(request, request.rank);
      if (to != from) batch.store(way, to, block_bytes(request), units);
    }
  });
}

/// All ranks' blocks for this rank, or, of an allreduce, for everybody, in the order of the ranks.
template <partita_u32 kind, class Way>
PARTITA_DEVICE_INLINE void reduce(const Partita_Prequest& request, const UnitRange& range, const Way& way) {
  constexpr int count = Way::reduced_at_once;
  constexpr partita_i32 sources = 4;
  const partita_u64 begin = sent_at<kind>(request, request.rank);
  for_each_batch<count>(range, [&](const Batch<count>& batch) {
    Held held[count]{};
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_i32 first = 0; first < request.ranks; first += sources) {
      Unit units[sources][count];
#if defined(__CUDACC__)
#pragma unroll
#endif
      for (partita_i32 k = 0; k < sources; ++k) {
        if (first + k >= request.ranks) continue;
        batch.load(way, send_buffer_of(request, first + k) + begin, block_bytes(request), units[k]);
      }
#if defined(__CUDACC__)
#pragma unroll
#endif
      for (partita_i32 k = 0; k < sources; ++k) {
        if (first + k >= request.ranks) continue;
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int i = 0; i < count; ++i) {
          if (!batch.has(i)) continue;
          held[i] = first + k == 0 ? begin_fold(request.reduction, units[k][i])
                                   : fold_in(request.reduction, held[i], units[k][i]);
        }
      }
    }
    Unit results[count];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int i = 0; i < count; ++i) results[i] = end_fold(request.reduction, held[i]);
    if constexpr (kind == PARTITA_COLLECTIVE_REDUCE_SCATTER) {
      batch.store(way, request.buffer, block_bytes(request), results);
    } else {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
      for (partita_i32 n = 0; n < request.ranks; ++n) {
        batch.store(way, receive_buffer_of(request, rank_behind(request, n)), block_bytes(request), results);
      }
    }
  });
}

/// What this rank and `other` have for each other. One thread holds both before it stores either, so that the two
/// buffers of a rank may be one.
template <class Way>
PARTITA_DEVICE_INLINE void exchange(const Partita_Prequest& request, partita_i32 other, const UnitRange& range,
                                    const Way& way) {
  constexpr partita_u32 kind = PARTITA_COLLECTIVE_ALLTOALL;
  const partita_u64 bytes = block_bytes(request);
  for_each_batch<Way::at_once>(range, [&](const Batch<Way::at_once>& batch) {
    Unit theirs[Way::at_once];
    Unit ours[Way::at_once];
    batch.load(way, send_buffer_of(request, other) + sent_at<kind>(request, request.rank), bytes, theirs);
    batch.load(way, request.sent + sent_at<kind>(request, other), bytes, ours);
    batch.store(way, receive_buffer_of(request, other) + received_at<kind>(request, request.rank), bytes, ours);
    batch.store(way, request.buffer + received_at<kind>(request, other), bytes, theirs);
  });
}

/// To itself.
template <class Way>
PARTITA_DEVICE_INLINE void keep(const Partita_Prequest& request, const UnitRange& range, const Way& way) {
  const partita_u64 at = sent_at<PARTITA_COLLECTIVE_ALLTOALL>(request, request.rank);
  if (request.sent == request.buffer) return;
  for_each_batch<Way::at_once>(range, [&](const Batch<Way::at_once>& batch) {
    Unit units[Way::at_once];
    batch.load(way, request.sent + at, block_bytes(request), units);
    batch.store(way, request.buffer + at, block_bytes(request), units);
  });
}

/// What this rank moves of a range of units. `other`: of an alltoall, the rank with which it exchanges them, or itself.
template <partita_u32 kind, class Way>
PARTITA_DEVICE_INLINE void move_range(const Partita_Prequest& request, partita_i32 other, const UnitRange& range,
                                      const Way& way) {
  if constexpr (kind == PARTITA_COLLECTIVE_ALLTOALL) {
    if (other == request.rank) {
      keep(request, range, way);
    } else {
      exchange(request, other, range, way);
    }
  } else if constexpr (reduces<kind>) {
    reduce<kind>(request, range, way);
  } else {
    spread<kind>(request, range, way);
  }
}

/// The units that can be moved whole, and then the others.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE void move_units(const Partita_Prequest& request, partita_i32 other, const UnitRange& range) {
  const partita_u64 whole = request.unit_bytes == unit_size_bytes ? block_bytes(request) / unit_size_bytes : 0;
  const partita_u64 between = whole < range.begin ? range.begin : whole < range.end ? whole : range.end;
  move_range<kind>(request, other, UnitRange{range.begin, between}, WholeUnits{});
  move_range<kind>(request, other, UnitRange{between, range.end}, AnyUnits{request.unit_bytes});
}

/// This thread's part of a strip.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE void move_strip(const Partita_Prequest& request, partita_u32 strips, partita_u32 strip) {
  const UnitRange all = all_units(request);
  if constexpr (kind == PARTITA_COLLECTIVE_ALLTOALL) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_i32 n = 0; n < request.ranks; ++n) {
      const partita_i32 other = rank_behind(request, n);
      const UnitRange shared =
          n == 0 ? all : part_of(all, parts_of_block<kind>(request), own_part<kind>(request, other));
      move_units<kind>(request, other, part_of(shared, strips, strip));
    }
  } else {
    const UnitRange own = part_of(all, parts_of_block<kind>(request), own_part<kind>(request, -1));
    move_units<kind>(request, -1, part_of(own, strips, strip));
  }
}

// ---- Who may when --------------------------------------------------------------------------------------------------

/// Where the call has begun (Edges in collective.cuh): the peers hear that they may read this rank's send buffer and
/// write its receive buffer.
PARTITA_DEVICE_INLINE void tell_begun(const Partita_Prequest& request, Epoch flag) {
  if (grid_rank() != 0) return;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 n = 1 + block_rank(); n < static_cast<partita_u32>(request.ranks); n += block_threads()) {
    release_fence();  // pairs with the acquire fence behind await_begun: what any thread of the grid has written
    partita_u32* const word =
        begun_word(area_at(request, rank_behind(request, static_cast<partita_i32>(n))), request.strips);
    SystemWord<partita_u32>(*word).store(flag, order_after_fence);
  }
}

/// For the whole block, behind a barrier of which all its threads may read and write the peers' buffers.
PARTITA_DEVICE_INLINE int await_begun(const Partita_Prequest& request, Epoch flag, Patience& patience) {
  int code = 0;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 n = 1 + block_rank(); code == 0 && n < static_cast<partita_u32>(request.ranks);
       n += block_threads()) {
    unsigned char* const area = area_of(request, rank_behind(request, static_cast<partita_i32>(n)));
    partita_u32 seen = 0;
    code = await(WordPoll<SystemWord>{begun_word(area, request.strips), flag}, patience, &seen);
  }
  acquire_fence();
  return code;
}

/// Behind a barrier of the block, which has moved its strips: the peers hear that it has read what it reads of their
/// send buffers, and that what it writes into their receive buffers is there.
PARTITA_DEVICE_INLINE void tell_moved(const Partita_Prequest& request, partita_u32 strips, Epoch flag) {
  for_each_line(request, strips, [&](partita_i32 rank, partita_u32 strip) {
    release_fence();  // pairs with the acquire fence behind await_moved
    partita_u32* const word = moved_word(area_at(request, rank), request.strips, strip);
    SystemWord<partita_u32>(*word).store(flag, order_after_fence);
    return 0;
  });
}

/// The strips of the block, from all other ranks or from `only`.
PARTITA_DEVICE_INLINE int await_moved(const Partita_Prequest& request, partita_u32 strips, partita_i32 only, Epoch flag,
                                      Patience& patience) {
  const int code = for_each_line(request, strips, [&](partita_i32 rank, partita_u32 strip) {
    if (only >= 0 && rank != only) return 0;
    partita_u32 seen = 0;
    return await(WordPoll<SystemWord>{moved_word(area_of(request, rank), request.strips, strip), flag}, patience,
                 &seen);
  });
  acquire_fence();
  return code;
}

/// This thread's part of moving an epoch in the peers' buffers. All threads of a block come, and go with a code or 0;
/// between some of them there is a barrier. `begun`: called before a wait for what others do.
template <partita_u32 kind, class Begun>
PARTITA_DEVICE_INLINE int move_in_buffers(const Partita_Prequest& request, const Entry& entry, Epoch flag,
                                          const Begun& begun) {
  int code = entry.code(request);
  if (code == 0) {
    tell_begun(request, flag);
    begun();
  }
  const partita_u32 strips = strips_in_buffers<kind>(request);
  // A block without strips could miss a flag: nobody waits for it before the next one is raised.
  if (grid_rank() >= strips) return code;
  Patience patience(request);
  if (code == 0) code = await_begun(request, flag, patience);
  // In place, the result lies where the first rank reads. That one waits for nobody with what it reads.
  const bool writes_what_is_read =
      kind == PARTITA_COLLECTIVE_REDUCE_SCATTER && request.sent == request.buffer && request.rank != 0;
  if (writes_what_is_read && code == 0) code = await_moved(request, strips, 0, flag, patience);
  if (block_any(code != 0)) return code;
  if (moves_a_part<kind>(request)) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_u32 strip = grid_rank(); strip < strips; strip += grid_blocks()) {
      move_strip<kind>(request, strips, strip);
    }
    block_barrier();
  }
  tell_moved(request, strips, flag);
  Patience rest(request);  // the time limit is one of a step
  return await_moved(request, strips, -1, flag, rest);
}

}  // namespace partita::device
