// How an allreduce that kernels do moves data of middle size: in packets, twice. Each rank reduces a part of the data,
// of which all send it what they have, and sends the result to all: of p ranks 2 / p of the bytes of one shot, and one
// way more.
#pragma once

#include <partita/device/impl/in_packets.cuh>

namespace partita::device {

/// The unit of `rank`'s part that stands at `offset` in a part; of no bytes where that part is shorter.
PARTITA_DEVICE_INLINE Spot spot_of_part(const Partita_Prequest& request, partita_u64 part_bytes, partita_i32 rank,
                                        const Spot& spot) {
  const partita_u64 offset = static_cast<partita_u32>(rank) * part_bytes + spot.offset;
  const partita_u64 bytes = block_bytes(request);
  return {offset, offset < bytes ? bytes_of_unit(bytes - offset) : 0, spot.slot};
}

/// Sends each rank the unit of its part.
PARTITA_DEVICE_INLINE void scatter_units(const Partita_Prequest& request, partita_u64 part_bytes, const Spot& spot,
                                         Epoch flag) {
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    const partita_i32 rank = rank_behind(request, n);
    const Spot theirs = spot_of_part(request, part_bytes, rank, spot);
    if (theirs.bytes == 0) continue;
    send_unit(area_at(request, rank) + spot.slot, load_unit(request.sent + theirs.offset, theirs.bytes), flag);
  }
}

/// Awaits the unit of this rank's part from all, keeps the result and sends it to all.
PARTITA_DEVICE_INLINE int reduce_own_unit(const Partita_Prequest& request, partita_u64 part_bytes, const Spot& spot,
                                          Epoch flag, partita_u32 slot_of_result, Patience& patience) {
  const Spot own = spot_of_part(request, part_bytes, request.rank, spot);
  if (own.bytes == 0) return 0;
  Unit result;
  if (const int code = reduce_spot<PARTITA_COLLECTIVE_ALLREDUCE>(request, own, flag, patience, result)) return code;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    send_unit(area_at(request, rank_behind(request, n)) + slot_of_result, result, next(flag));
  }
  store_unit(request.buffer + own.offset, result, own.bytes);
  return 0;
}

/// Awaits the results of all other ranks' units.
PARTITA_DEVICE_INLINE int gather_results(const Partita_Prequest& request, partita_u64 part_bytes, const Spot& spot,
                                         Epoch flag, Patience& patience) {
  constexpr partita_u32 kind = PARTITA_COLLECTIVE_ALLREDUCE;
  const partita_i32 begin = worked_out_later(0);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 first = begin; first < request.ranks; first += sources_at_once<kind>) {
    Coming<kind> coming;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      coming.words[k][0] = packet_of(0, flag);
      coming.words[k][1] = packet_of(0, flag);
    }
    partita_u32 awaited = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      if (spot_of_part(request, part_bytes, first + k, spot).bytes > 0) awaited |= 1U << k;
    }
    awaited &= ranks_awaited<kind>(request, first);
    if (const int code = await_unit<kind>(request, spot.slot, flag, first, awaited, patience, coming)) return code;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      if ((awaited >> k & 1) == 0) continue;
      const Spot theirs = spot_of_part(request, part_bytes, first + k, spot);
      store_unit(request.buffer + theirs.offset, unit_of(coming.words[k]), theirs.bytes);
    }
  }
  return 0;
}

/// This thread's part of moving an epoch so: all threads of a block come, and go with a code or 0. `flag`: the newest
/// one so far, and then of this epoch; a round has two, one a shot, each with a set of slots of its own. A thread has
/// the same place of a part in each round, and whoever writes over a slot has heard from the thread that has read it.
template <class Begun>
PARTITA_DEVICE_INLINE int move_in_two_shots(const Partita_Prequest& request, const Entry& entry, Epoch& flag,
                                            const Begun& begun) {
  const partita_u64 part_bytes =
      cut_bytes(PARTITA_ALGORITHM_TWO_SHOT, block_bytes(request), static_cast<partita_u32>(request.ranks));
  int code = 0;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 round = 0; round < request.rounds; ++round) {
    Patience patience(request);  // the time limit is one of a round
    const Epoch first = next(flag);
    flag = next(first);
    // Between the places of a unit in the two sets of slots; modulo 2^32.
    const partita_u32 to_result = slots_at(request, 0, flag) - slots_at(request, 0, first);
    code = entry.code(request);
    if (code != 0) return code;
    for_each_spot(request, round, first, [&](const Spot& spot) {
      scatter_units(request, part_bytes, spot, first);
      return 0;
    });
    begun();
    code = for_each_spot(request, round, first, [&](const Spot& spot) {
      return reduce_own_unit(request, part_bytes, spot, first, spot.slot + to_result, patience);
    });
    if (code != 0) return code;
    code = for_each_spot(request, round, flag,
                         [&](const Spot& spot) { return gather_results(request, part_bytes, spot, flag, patience); });
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace partita::device
