// What a collective moves, as one of its ranks sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/schedule.hpp"

namespace partita::collective {

/// The collectives of MPI-4 (chapters 6 and 8), of which the barrier alone moves no data and has no partitions. The v
/// and w forms differ from the plain ones in the sizes of their blocks only.
enum class Kind : std::uint8_t {
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce,
  allreduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
  barrier,
};
inline constexpr Kind last_kind = Kind::barrier;
inline constexpr int kind_count = static_cast<int>(last_kind) + 1;

/// "bcast", "alltoallv", …
const char* name_of(Kind kind);
/// "persistent_bcast", …: of one that has no partitions.
const char* persistent_name_of(Kind kind);

/// What one rank knows of it. Sizes are those of one partition's slices, in packed bytes; 0 is allowed.
struct Problem {
  Kind kind{};
  int rank = 0;
  int size = 1;  ///< ranks of the communicator
  int root = 0;
  /// Sizes of the blocks of the send buffer, in the order of the ranks, or of the neighbours, that they are for. One
  /// block where all get the same; none where this rank sends nothing of its own. A schedule has a mark where there is
  /// one.
  std::vector<std::int64_t> sent{};
  /// Sizes of the blocks of the receive buffer, likewise by their sources. One block where a reduction or one rank
  /// fills it; none where this rank receives nothing.
  std::vector<std::int64_t> received{};
  /// Sizes of all blocks that are reduced and scattered, by ranks: alike on all of them. Else empty.
  std::vector<std::int64_t> scattered{};
  /// What this rank sends lies in its receive buffer (MPI_IN_PLACE): where a block of its own is asked for there, it
  /// lies in its place already. A collective with a root is in place on the root alone. A schedule keeps its own
  /// partition's slices apart; the result of a reduce_scatter whose blocks differ lies over other partitions' slices of
  /// them, which whoever runs the schedules must have read before.
  bool in_place = false;
  std::int64_t unit_bytes = 1;  ///< an element of a reduction: regions that are reduced are of whole ones
  bool commutative = true;
  std::vector<int> sources{};  ///< neighbours that send to this rank, in the order of the blocks; MPI_PROC_NULL is -1
  std::vector<int> destinations{};  ///< to which it sends
  /// The neighbours come in pairs, the lower and the upper of a dimension, and what goes to one side comes from the
  /// other: in a periodic dimension of two ranks or one both are the same rank (MPI-4, section 8.6).
  bool cartesian = false;

  Region sent_block(int block = 0) const { return {Buffer::sent, block, 0, sent[static_cast<std::size_t>(block)]}; }
  Region received_block(int block = 0) const {
    return {Buffer::received, block, 0, received[static_cast<std::size_t>(block)]};
  }
};

}  // namespace partita::collective
