// From which size on each collective of the MPI's on GPU memory goes by peer memory (docs/design/gpu-aware.md).
#pragma once

#include <cstdint>
#include <span>

namespace partita {

/// The collectives that may, by the MPI's names.
enum class PeerCollective : std::uint8_t {
#define SIZE(NAME, BYTES, SOURCE) NAME,
#include "two_sided/peer_sizes.inc"
#undef SIZE
};

/// A line of the table.
struct MeasuredPeerSize {
  PeerCollective collective;
  const char* name;    ///< MPI_Bcast
  std::int64_t bytes;  ///< of a rank's larger buffer, on up to four ranks
  const char* source;  ///< the measurement, in words
};
/// By PeerCollective.
std::span<const MeasuredPeerSize> measured_peer_sizes();

/// What the ranks of a job have agreed on.
struct PeerSizes {
  std::int64_t least_bytes = 0;  ///< none begins below
  bool are_measured = false;     ///< nor below the table's size, which grows with the ranks beyond four

  /// So many bytes of a rank's larger buffer make a call on so many ranks go by peer memory.
  std::int64_t from_bytes(PeerCollective collective, int ranks) const;
};

}  // namespace partita
