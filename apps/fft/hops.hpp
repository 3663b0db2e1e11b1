// The ways of a rank's cells from stage to stage, and the buffers that these take.
#pragma once

#include <vector>

#include "apps/fft/problem.hpp"

namespace fft {

/// The way from one stage to the next: lines of the first are transformed and sent, those of the last stage of all are
/// transformed where they have arrived.
struct Hop {
  Route route;
  Places sent, received;  ///< where the blocks lie in the buffers
  Direction direction = Direction::forward;
  bool last = false;  ///< the next stage is the last of its transform
  double scale = 1;   ///< of what is unpacked
};

/// The hops of a rank, of the forward and of the inverse transform. The latter divides by the number of cells.
struct Hops {
  std::vector<Hop> all;          ///< those of the forward transform first
  std::size_t forward_ones = 0;  ///< how many these are

  /// The stages at the ends of the forward transform: the input's, and the spectrum's.
  const Route& first() const { return all.front().route; }
  const Route& last() const { return all[forward_ones - 1].route; }
};

Hops hops_of(const Problem& problem, int ranks, int rank, Spacing spacing);

/// Cells that this rank needs room for, in the largest stage and in the largest buffers.
struct Room {
  std::int64_t stage = 0, sent = 0, received = 0;

  std::int64_t all() const { return stage + sent + received; }
};
Room room_for(const std::vector<Hop>& hops);

/// The largest number of cells that an exchange of blocks that lie so hands the MPI as an int: a block's where they are
/// equal, also the place of one where they have exact sizes, none where slices travel.
std::int64_t largest_int(const std::vector<Hop>& hops, Spacing spacing);

}  // namespace fft
