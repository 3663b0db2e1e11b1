// How a collective that kernels do moves small data: in packets, through slots of the areas.
#pragma once

#include <partita/device/impl/collective_terms.cuh>
#include <partita/device/impl/packets.cuh>
#include <partita/device/impl/units.cuh>

namespace partita::device {

static_assert(area_unit_bytes == unit_size_bytes && area_slot_bytes == 2 * packet_bytes, "two packets carry a unit");

// ---- Where a unit lies ---------------------------------------------------------------------------------------------

/// Units of a block.
struct Share {
  partita_u64 begin;
  partita_u64 units;
};

PARTITA_DEVICE_INLINE Share share_at(const Partita_Prequest& request, partita_u64 index) {
  const bool is_longer = index < request.longer_shares;
  return {index * request.share_units + (is_longer ? index : request.longer_shares),
          request.share_units + (is_longer ? 1 : 0)};
}

PARTITA_DEVICE_INLINE partita_u32* credit_in(unsigned char* area, partita_u32 strip) {
  return reinterpret_cast<partita_u32*>(area) + strip * words_of_line;
}

/// Where the packets of a unit lie in an area.
PARTITA_DEVICE_INLINE partita_u64 slot_at(const Partita_Prequest& request, partita_u32 strip, partita_u32 unit,
                                          Epoch flag) {
  return lines_bytes(request.strips) + strip * slots_of_strip_bytes() +
         ((flag & 1) * most_share_units + unit) * area_slot_bytes;
}

/// One unit of a strip's share of a round.
struct Spot {
  partita_u64 offset;  ///< in a block
  partita_u64 bytes;   ///< of the block from there on
  partita_u64 slot;    ///< in an area
};

/// Calls body(Spot) for each unit of this round that the calling thread has in the strips of its block, until it gives
/// another code than 0, which comes back. The same units whichever way they go.
template <class Body>
PARTITA_DEVICE_INLINE int for_each_spot(const Partita_Prequest& request, partita_u32 round, Epoch flag,
                                        const Body& body) {
  const partita_u32 blocks = grid_blocks();
  for (partita_u32 i = block_rank();; i += block_threads()) {
    const partita_u32 strip = grid_rank() + i / most_share_units * blocks;
    if (strip >= request.strips) return 0;
    const partita_u32 unit = i % most_share_units;
    const Share share = share_at(request, partita_u64{round} * request.strips + strip);
    if (unit >= share.units) continue;
    const partita_u64 offset = (share.begin + unit) * unit_size_bytes;
    const Spot spot{offset, block_bytes(request) - offset, slot_at(request, strip, unit, flag)};
    if (const int code = body(spot)) return code;
  }
}

// ---- How it travels ------------------------------------------------------------------------------------------------

PARTITA_DEVICE_INLINE void send_unit(unsigned char* slot, const Unit& unit, Epoch flag) {
  send_packet(slot, 0, unit.low, flag);
  send_packet(slot, 1, unit.high, flag);
}

/// To every other rank.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE void send_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag) {
  Unit unit{};
  if (!scatters<kind>) unit = load_unit(request.sent + spot.offset, spot.bytes);
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    const partita_i32 to = rank_behind(request, n);
    if (scatters<kind>) unit = load_unit(request.sent + sent_at<kind>(request, to) + spot.offset, spot.bytes);
    send_unit(area_at(request, to) + spot.slot, unit, flag);
  }
}

/// So many ranks' packets has a thread on their way at once.
template <partita_u32 kind>
inline constexpr partita_i32 sources_at_once = is_rooted<kind> ? 1 : 4;

/// The packets of a unit from some ranks.
template <partita_u32 kind>
struct Coming {
  PacketWords words[sources_at_once<kind>][2];
};

PARTITA_DEVICE_INLINE Unit unit_of(const PacketWords (&words)[2]) {
  return {pair_of(low_half(words[0].first), low_half(words[0].second)),
          pair_of(low_half(words[1].first), low_half(words[1].second))};
}

/// Whether packets of a unit come from `rank`, which may be none.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE bool comes_from(const Partita_Prequest& request, partita_i32 rank) {
  return rank < request.ranks && rank != request.rank && sends<kind>(request, rank);
}

/// Waits for those of the ranks from `first` on.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int await_unit(const Partita_Prequest& request, const Spot& spot, Epoch flag, partita_i32 first,
                                     Patience& patience, Coming<kind>& coming) {
  for (;;) {
    bool is_there = true;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      if (!comes_from<kind>(request, first + k)) continue;
      const unsigned char* const slot = area_of(request, first + k) + spot.slot;
      coming.words[k][0] = load_packet(slot);
      coming.words[k][1] = load_packet(slot + packet_bytes);
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      if (!comes_from<kind>(request, first + k)) continue;
      is_there = is_there && has_arrived(coming.words[k][0], flag) && has_arrived(coming.words[k][1], flag);
    }
    if (is_there) return 0;
    if (const int code = patience.look()) return code;
  }
}

/// A unit comes from all ranks, and is reduced in their order, or stored where it belongs.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int receive_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag,
                                       Patience& patience) {
  Held held{};
  const partita_i32 begin = is_rooted<kind> ? request.root : 0;
  const partita_i32 end = is_rooted<kind> ? request.root + 1 : request.ranks;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 first = begin; first < end; first += sources_at_once<kind>) {
    Coming<kind> coming;
    if (const int code = await_unit<kind>(request, spot, flag, first, patience, coming)) return code;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      const partita_i32 from = first + k;
      const bool own = from == request.rank;
      if (!comes_from<kind>(request, from) && !(own && !is_rooted<kind>)) continue;
      const Unit unit = own ? load_unit(request.sent + sent_at<kind>(request, from) + spot.offset, spot.bytes)
                            : unit_of(coming.words[k]);
      if constexpr (!reduces<kind>) {
        store_unit(request.buffer + received_at<kind>(request, from) + spot.offset, unit, spot.bytes);
      } else {
        held = from == 0 ? begin_fold(request.reduction, unit) : fold_in(request.reduction, held, unit);
      }
    }
  }
  if constexpr (reduces<kind>) store_unit(request.buffer + spot.offset, end_fold(request.reduction, held), spot.bytes);
  return 0;
}

/// What await polls: a rank's word that it has unpacked what came with a flag, so that the slots of this round's `flag`
/// are free there, which were used two rounds ago.
struct FreedPoll {
  partita_u32* word;
  Epoch flag;

  PARTITA_DEVICE_INLINE partita_u32 load() const { return SystemWord<partita_u32>(*word).load(order_before_fence); }
  PARTITA_DEVICE_INLINE bool is_there(partita_u32 unpacked) const {
    const partita_u32 skipped = unpacked > flag ? 2 : 0;  // by next(), at the wrap
    return flag - unpacked <= 2 + skipped;
  }
};

/// The root's wait until the slots of this round are free everywhere.
PARTITA_DEVICE_INLINE int await_credits(const Partita_Prequest& request, Epoch flag, Patience& patience) {
  const int code = for_each_line(request, request.strips, [&](partita_i32 rank, partita_u32 strip) {
    partita_u32 seen = 0;
    const FreedPoll poll{credit_in(area_of(request, rank), strip), flag};
    return await(poll, patience, &seen);
  });
  acquire_fence();  // pairs with the releases in give_credits: what was unpacked there is not written over before
  return code;
}

/// The block has unpacked this round, and tells the root. Behind a barrier of the block.
PARTITA_DEVICE_INLINE void give_credits(const Partita_Prequest& request, Epoch flag) {
  for_each_line(request, request.strips, [&](partita_i32 rank, partita_u32 strip) {
    if (rank != request.root) return 0;
    partita_u32* const word = credit_in(area_at(request, rank), strip);
    SystemWord<partita_u32>(*word).store(flag, order::memory_order_release);  // pairs with await_credits
    return 0;
  });
}

/// This thread's part of a round: 0, or the code with which it ended.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int move_round(const Partita_Prequest& request, partita_u32 round, Epoch flag,
                                     Patience& patience) {
  if (sends<kind>(request, request.rank)) {
    for_each_spot(request, round, flag, [&](const Spot& spot) {
      send_spot<kind>(request, spot, flag);
      return 0;
    });
  }
  if (is_rooted<kind> && request.rank == request.root) return 0;
  return for_each_spot(request, round, flag,
                       [&](const Spot& spot) { return receive_spot<kind>(request, spot, flag, patience); });
}

/// This thread's part of moving an epoch in packets. All threads of a block come, with the code that each has by now,
/// and go with another one, or 0. `flag`: the newest one so far, and then of this epoch.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int move_in_packets(const Partita_Prequest& request, int code, Epoch& flag) {
  const bool is_root = is_rooted<kind> && request.rank == request.root;
  for (partita_u32 round = 0; round < request.rounds; ++round) {
    Patience patience(request);  // the time limit is one of a round
    flag = next(flag);
    if (is_root) {
      if (code == 0) code = await_credits(request, flag, patience);
      if (block_any(code != 0)) return code;
    }
    if (code == 0) code = move_round<kind>(request, round, flag, patience);
    const bool gives_credits = is_rooted<kind> && !is_root;
    // Two sets of slots: no thread goes two rounds on while another one of its block still unpacks.
    if (round + 1 == request.rounds && !gives_credits) return code;
    if (block_any(code != 0)) return code;
    if (gives_credits) give_credits(request, flag);
  }
  return code;
}

}  // namespace partita::device
