// How a collective that kernels do moves small data: in packets, through slots of the areas.
#pragma once

#include <partita/device/impl/collective_terms.cuh>
#include <partita/device/impl/grid.cuh>
#include <partita/device/impl/packets.cuh>
#include <partita/device/impl/units.cuh>

namespace partita::device {

static_assert(area_unit_bytes == unit_size_bytes && area_slot_bytes == 2 * packet_bytes, "two packets carry a unit");

// ---- Where a unit lies ---------------------------------------------------------------------------------------------

/// Units of a block.
struct Share {
  partita_u64 begin;
  partita_u32 units;
};

PARTITA_DEVICE_INLINE Share share_at(const Partita_Prequest& request, partita_u32 index) {
  const partita_u32 units = static_cast<partita_u32>(request.share_units);
  const bool is_longer = index < request.longer_shares;
  return {partita_u64{index} * units + (is_longer ? index : request.longer_shares), units + (is_longer ? 1 : 0)};
}

PARTITA_DEVICE_INLINE partita_u32* credit_in(unsigned char* area, partita_u32 strip) {
  return reinterpret_cast<partita_u32*>(area) + strip * words_of_line;
}

/// Where the packets of a strip's first unit lie in an area, which is smaller than 4 GiB.
PARTITA_DEVICE_INLINE partita_u32 slots_at(const Partita_Prequest& request, partita_u32 strip, Epoch flag) {
  return static_cast<partita_u32>(lines_bytes(request.strips) + strip * slots_of_strip_bytes() +
                                  (flag & 1) * most_share_units * area_slot_bytes);
}
static_assert(area_bytes(most_strips) < 0x100000000);

/// One unit of a strip's share of a round.
struct Spot {
  partita_u64 offset;  ///< in a block
  partita_u32 bytes;   ///< of the unit, up to 16
  partita_u32 slot;    ///< in an area
};

/// Calls body(Spot) for each unit of this round that the calling thread has in the strips of its block, until it gives
/// another code than 0, which comes back. The same units whichever way they go. Strip by strip, so that a thread
/// without a unit is through at once, and does not hold up the others of its warp; where a strip has fewer units than
/// the block has threads, groups of as many threads as a strip can have units each take strips of their own.
template <class Body>
PARTITA_DEVICE_INLINE int for_each_spot(const Partita_Prequest& request, partita_u32 round, Epoch flag,
                                        const Body& body) {
  const partita_u32 threads = block_threads();
  const partita_u32 groups = threads < most_share_units ? 1 : threads / most_share_units;
  const partita_u32 of_group = threads < most_share_units ? threads : most_share_units;
  const partita_u32 group = block_rank() / most_share_units;
  if (group >= groups) return 0;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 strip = grid_rank() + group * grid_blocks(); strip < request.strips;
       strip += groups * grid_blocks()) {
    const Share share = share_at(request, round * request.strips + strip);
    const partita_u32 slots = slots_at(request, strip, flag);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (partita_u32 unit = block_rank() % most_share_units; unit < share.units; unit += of_group) {
      const partita_u64 offset = (share.begin + unit) * unit_size_bytes;
      const Spot spot{offset, bytes_of_unit(block_bytes(request) - offset),
                      slots + unit * static_cast<partita_u32>(area_slot_bytes)};
      if (const int code = body(spot)) return code;
    }
  }
  return 0;
}

// ---- How it travels ------------------------------------------------------------------------------------------------

PARTITA_DEVICE_INLINE void send_unit(unsigned char* slot, const Unit& unit, Epoch flag) {
  send_packet(slot, 0, unit.low, flag);
  send_packet(slot, 1, unit.high, flag);
}

/// To every other rank. Where the next one's area lies is loaded while packets to the one before are on their way out.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE void send_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag) {
  if (request.ranks == 1) return;
  Unit unit{};
  if (!scatters<kind>) unit = load_unit(request.sent + spot.offset, spot.bytes);
  unsigned char* area = area_at(request, rank_behind(request, 1));
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    if (scatters<kind>) {
      unit = load_unit(request.sent + sent_at<kind>(request, rank_behind(request, n)) + spot.offset, spot.bytes);
    }
    unsigned char* const slot = area + spot.slot;
    if (n + 1 < request.ranks) area = area_at(request, rank_behind(request, n + 1));
    send_unit(slot, unit, flag);
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

/// Bit by bit, which of the ranks from `first` on a rank waits for packets of.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u32 ranks_awaited(const Partita_Prequest& request, partita_i32 first) {
  if constexpr (is_rooted<kind>) return 1;
  const partita_i32 left = request.ranks - first;
  const partita_u32 all = (1U << (left < sources_at_once<kind> ? left : sources_at_once<kind>)) - 1;
  const partita_i32 own = request.rank - first;
  return own < 0 || own >= sources_at_once<kind> ? all : all & ~(1U << own);
}

/// As if packets of all those ranks had come: of this one with its own unit, which is loaded before the wait for the
/// others, not behind it, and of the others with nothing.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE void begin_unit(const Partita_Prequest& request, const Spot& spot, Epoch flag, partita_i32 first,
                                      Coming<kind>& coming) {
  const partita_i32 own = request.rank - first;
  const bool has_own = !is_rooted<kind> && own >= 0 && own < sources_at_once<kind>;
  Unit unit{};
  if (has_own) unit = load_unit(request.sent + sent_at<kind>(request, request.rank) + spot.offset, spot.bytes);
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
    coming.words[k][0] = packet_of(has_own && own == k ? unit.low : 0, flag);
    coming.words[k][1] = packet_of(has_own && own == k ? unit.high : 0, flag);
  }
}

/// 0 if the packets have `flag`; without branches.
PARTITA_DEVICE_INLINE partita_u32 differs(const PacketWords (&words)[2], Epoch flag) {
  return (high_half(words[0].first) ^ flag) | (high_half(words[0].second) ^ flag) | (high_half(words[1].first) ^ flag) |
         (high_half(words[1].second) ^ flag);
}

/// Waits for the packets of those of the ranks from `first` on that `awaited` tells, bit by bit.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int await_unit(const Partita_Prequest& request, partita_u32 at, Epoch flag, partita_i32 first,
                                     partita_u32 awaited, Patience& patience, Coming<kind>& coming) {
  for (;;) {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      if ((awaited >> k & 1) == 0) continue;
      const unsigned char* const slot = area_of(request, first + k) + at;
      coming.words[k][0] = load_packet(slot);
      coming.words[k][1] = load_packet(slot + packet_bytes);
    }
    partita_u32 missing = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) missing |= differs(coming.words[k], flag);
    if (missing == 0) return 0;
    if (const int code = patience.look()) return code;
  }
}

/// A unit comes from all ranks: calls take(rank, unit) for each, in their order.
template <partita_u32 kind, class Take>
PARTITA_DEVICE_INLINE int gather_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag, Patience& patience,
                                      const Take& take) {
  // Packets are on their way meanwhile: where those of each rank lie is not held in registers from call to call.
  const partita_i32 begin = worked_out_later(is_rooted<kind> ? request.root : 0);
  const partita_i32 end = is_rooted<kind> ? request.root + 1 : request.ranks;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 first = begin; first < end; first += sources_at_once<kind>) {
    Coming<kind> coming;
    begin_unit<kind>(request, spot, flag, first, coming);
    // Held, and not worked out again in each poll.
    const auto awaited =
        static_cast<partita_u32>(worked_out_later(static_cast<partita_i32>(ranks_awaited<kind>(request, first))));
    if (const int code = await_unit<kind>(request, spot.slot, flag, first, awaited, patience, coming)) return code;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_i32 k = 0; k < sources_at_once<kind>; ++k) {
      const partita_i32 from = first + k;
      if (!is_rooted<kind> && from >= request.ranks) break;
      take(from, unit_of(coming.words[k]));
    }
  }
  return 0;
}

/// A unit of each rank is reduced in their order.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int reduce_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag, Patience& patience,
                                      Unit& result) {
  Held held{};
  const int code = gather_spot<kind>(request, spot, flag, patience, [&](partita_i32 from, const Unit& unit) {
    held = from == 0 ? begin_fold(request.reduction, unit) : fold_in(request.reduction, held, unit);
  });
  result = end_fold(request.reduction, held);
  return code;
}

/// A unit comes from all ranks, and is reduced in their order, or stored where it belongs.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE int receive_spot(const Partita_Prequest& request, const Spot& spot, Epoch flag,
                                       Patience& patience) {
  if constexpr (reduces<kind>) {
    Unit result;
    if (const int code = reduce_spot<kind>(request, spot, flag, patience, result)) return code;
    store_unit(request.buffer + spot.offset, result, spot.bytes);
    return 0;
  } else {
    return gather_spot<kind>(request, spot, flag, patience, [&](partita_i32 from, const Unit& unit) {
      store_unit(request.buffer + received_at<kind>(request, from) + spot.offset, unit, spot.bytes);
    });
  }
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

/// This thread's part of a round: 0, or the code with which it ended. Calls `begun` between what it sends and its wait.
template <partita_u32 kind, class Begun>
PARTITA_DEVICE_INLINE int move_round(const Partita_Prequest& request, const Entry& entry, partita_u32 round, Epoch flag,
                                     Patience& patience, const Begun& begun) {
  if (sends<kind>(request, request.rank)) {
    for_each_spot(request, round, flag, [&](const Spot& spot) {
      const int code = entry.code(request);
      if (code == 0) send_spot<kind>(request, spot, flag);
      return code;
    });
  }
  if (const int code = entry.code(request)) return code;
  begun();
  if (is_rooted<kind> && request.rank == request.root) return 0;
  return for_each_spot(request, round, flag,
                       [&](const Spot& spot) { return receive_spot<kind>(request, spot, flag, patience); });
}

/// This thread's part of moving an epoch in packets. All threads of a block come, and go with a code or 0. `flag`: the
/// newest one so far, and then of this epoch. `begun`: called once or more, before each wait for others.
template <partita_u32 kind, class Begun>
PARTITA_DEVICE_INLINE int move_in_packets(const Partita_Prequest& request, const Entry& entry, Epoch& flag,
                                          const Begun& begun) {
  const bool is_root = is_rooted<kind> && request.rank == request.root;
  const bool gives_credits = is_rooted<kind> && !is_root;
  int code = 0;
  if (request.rounds == 0) {
    code = entry.code(request);
    if (code == 0) begun();
  }
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 round = 0; round < request.rounds; ++round) {
    Patience patience(request);  // the time limit is one of a round
    flag = next(flag);
    if (is_root) {
      code = entry.code(request);
      if (code == 0) begun();
      if (code == 0) code = await_credits(request, flag, patience);
      if (block_any(code != 0)) return code;
    }
    code = move_round<kind>(request, entry, round, flag, patience, begun);
    // Two sets of slots: no thread goes two rounds on while another one of its block still unpacks.
    if (round + 1 == request.rounds && !gives_credits) return code;
    if (block_any(code != 0)) return code;
    if (gives_credits) give_credits(request, flag);
  }
  return code;
}

}  // namespace partita::device
