#include "two_sided/peer_sizes.hpp"

#include <algorithm>

namespace partita {
namespace {

constexpr MeasuredPeerSize table[] = {
#define SIZE(NAME, BYTES, SOURCE) {PeerCollective::NAME, "MPI_" #NAME, BYTES, SOURCE},
#include "two_sided/peer_sizes.inc"
#undef SIZE
};

/// A call starts a copy for each peer. So with more ranks than were measured it takes more bytes to be worth that.
constexpr std::int64_t measured_ranks = 4;

}  // namespace

std::span<const MeasuredPeerSize> measured_peer_sizes() {
  return table;
}

std::int64_t PeerSizes::from_bytes(PeerCollective collective, int ranks) const {
  if (!are_measured) return least_bytes;
  const std::int64_t measured_bytes = table[static_cast<std::size_t>(collective)].bytes;
  return std::max(least_bytes, measured_bytes * std::max<std::int64_t>(ranks, measured_ranks) / measured_ranks);
}

}  // namespace partita
