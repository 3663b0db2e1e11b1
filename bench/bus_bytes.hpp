// What a collective moves over the bus, as NCCL's tests count it for their bus bandwidth: what the slowest link of a
// rank carries at least, in one direction, where no link does better than another. So the bandwidth of a link bounds
// it, whatever the collective and the ranks.
#pragma once

#include <cstdint>

namespace partita::bench {

/// Each rank has a block, and gets the sum: 2 (p - 1) / p of it goes out of each.
constexpr double bus_bytes_of_allreduce(std::int64_t block_bytes, int ranks) {
  return 2.0 * static_cast<double>(block_bytes) * (ranks - 1) / ranks;
}
/// Allgather, reduce-scatter, alltoall: (p - 1) / p of the p blocks that a rank gets, or has.
constexpr double bus_bytes_of_blocks(std::int64_t block_bytes, int ranks) {
  return static_cast<double>(block_bytes) * (ranks - 1);
}
/// To all others, but through each link once.
constexpr double bus_bytes_of_bcast(std::int64_t block_bytes, int ranks) {
  return ranks > 1 ? static_cast<double>(block_bytes) : 0;
}

}  // namespace partita::bench
