// What the collectives of kernels do, and what ranks have in each other's memory for it: common to all algorithms.
#pragma once

#include <partita/device/peer.h>
#include <partita/device/impl/areas.hpp>
#include <partita/device/impl/platform.cuh>

namespace partita::device {

// ---- What a collective does ----------------------------------------------------------------------------------------

/// Whether what comes is reduced; else it is stored.
PARTITA_HOST_DEVICE constexpr bool kind_reduces(partita_u32 kind) {
  return kind == PARTITA_COLLECTIVE_ALLREDUCE || kind == PARTITA_COLLECTIVE_REDUCE_SCATTER;
}
/// Whether the send buffer has a block for each rank.
PARTITA_HOST_DEVICE constexpr bool kind_scatters(partita_u32 kind) {
  return kind == PARTITA_COLLECTIVE_REDUCE_SCATTER || kind == PARTITA_COLLECTIVE_ALLTOALL;
}
/// Whether the receive buffer has a block of each rank.
PARTITA_HOST_DEVICE constexpr bool kind_gathers(partita_u32 kind) {
  return kind == PARTITA_COLLECTIVE_ALLGATHER || kind == PARTITA_COLLECTIVE_ALLTOALL;
}

// Where one call moves all, each function knows which collective it is for when it is compiled.

template <partita_u32 kind>
inline constexpr bool reduces = kind_reduces(kind);
template <partita_u32 kind>
inline constexpr bool scatters = kind_scatters(kind);
template <partita_u32 kind>
inline constexpr bool gathers = kind_gathers(kind);
template <partita_u32 kind>
inline constexpr bool is_rooted = kind == PARTITA_COLLECTIVE_BCAST;

/// Whether `rank` has data for others.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE bool sends(const Partita_Prequest& request, partita_i32 rank) {
  return !is_rooted<kind> || rank == request.root;
}
PARTITA_DEVICE_INLINE partita_u64 block_bytes(const Partita_Prequest& request) {
  return static_cast<partita_u64>(request.total_bytes);
}
/// Where what is for `rank` begins in a send buffer.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u64 sent_at(const Partita_Prequest& request, partita_i32 rank) {
  return scatters<kind> ? static_cast<partita_u64>(rank) * block_bytes(request) : 0;
}
/// Where what comes from `rank` begins in a receive buffer.
template <partita_u32 kind>
PARTITA_DEVICE_INLINE partita_u64 received_at(const Partita_Prequest& request, partita_i32 rank) {
  return gathers<kind> ? static_cast<partita_u64>(rank) * block_bytes(request) : 0;
}
/// The `n`th rank behind this one, which is number 0.
PARTITA_DEVICE_INLINE partita_i32 rank_behind(const Partita_Prequest& request, partita_i32 n) {
  const partita_i32 rank = request.rank + n;
  return rank < request.ranks ? rank : rank - request.ranks;
}

// ---- Where it does it ----------------------------------------------------------------------------------------------

/// This rank's area in the memory of `rank`, and the other way round.
PARTITA_DEVICE_INLINE unsigned char* area_at(const Partita_Prequest& request, partita_i32 rank) {
  return reinterpret_cast<unsigned char*>(request.peers[rank].device_words);
}
PARTITA_DEVICE_INLINE unsigned char* area_of(const Partita_Prequest& request, partita_i32 rank) {
  return request.remote + static_cast<partita_u32>(rank) * static_cast<partita_u32>(area_bytes(request.strips));
}
static_assert(most_collective_ranks * area_bytes(most_strips) < 0x100000000, "in 32 bits");
/// Calls body(rank, strip) for each other rank and each of the block's strips, of so many strips in all: the threads of
/// the block one each, side by side, since a body is a fence or a wait for a word.
template <class Body>
PARTITA_DEVICE_INLINE int for_each_line(const Partita_Prequest& request, partita_u32 strips, const Body& body) {
  const partita_u32 others = static_cast<partita_u32>(request.ranks) - 1;
  if (others == 0 || grid_rank() >= strips) return 0;
  const partita_u32 lines = (strips - grid_rank() + grid_blocks() - 1) / grid_blocks() * others;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 line = block_rank(); line < lines; line += block_threads()) {
    const partita_u32 nth = line / others;
    const auto n = static_cast<partita_i32>(line - nth * others + 1);
    if (const int code = body(rank_behind(request, n), grid_rank() + nth * grid_blocks())) return code;
  }
  return 0;
}

}  // namespace partita::device
