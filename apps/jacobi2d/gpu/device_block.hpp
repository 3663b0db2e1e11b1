// A rank's cells in the memory of its GPU, and the buffers of the halo beside them.
#pragma once

#include <array>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/field.hpp"
#include "apps/jacobi2d/gpu/sweep.hpp"
#include "apps/support/cuda_memory.hpp"

namespace jacobi2d::gpu {

using partita::apps::DeviceMemory;
using partita::apps::PinnedMemory;
using partita::apps::SleepingEvent;
using partita::apps::Stream;
using partita::apps::StreamEvent;

/// The halo of one iteration and the edges that become the neighbours' halos. There are several sets, so that a
/// neighbour may fill one for an iteration to come while another is still read.
inline constexpr int halo_sets = 4;

/// Edges and halos are contiguous, since device requests take nothing else: the kernel packs and unpacks columns as it
/// computes. In a set the runs of the four sides lie one behind the other, first all edges, then all halos.
class DeviceBlock {
 public:
  /// For the cells of `block`; `partitions` by side, 0 where there is no neighbour. On the current device.
  DeviceBlock(const Block& block, const std::array<int, side_count>& partitions);

  const Shape& shape() const { return shape_; }

  /// Copies both fields and every halo from the state before the first iteration. Blocks.
  void upload(const Field& start);
  /// Copies field `index` to `field`. Blocks.
  void download(int index, const Field& field) const;

  /// Iteration reads field `from` and the halo of `read_set`, writes the other field and the edges of `write_set`.
  Sweep sweep(int from, int read_set, int write_set, unsigned long long* change) const;

  double* field(int index) const { return index == 0 ? first_field_.data() : second_field_.data(); }
  double* edge(int set, Side side) const { return edges(set) + offsets_[index_of(side)]; }
  double* halo(int set, Side side) const { return halos(set) + offsets_[index_of(side)]; }
  int length(Side side) const;

  /// All edges and all halos of a set, `set_doubles()` each, and where in them a side's run begins.
  double* edges(int set) const { return buffers_.data() + 2 * set * set_doubles_; }
  double* halos(int set) const { return edges(set) + set_doubles_; }
  std::ptrdiff_t set_doubles() const { return set_doubles_; }
  std::ptrdiff_t offset(Side side) const { return offsets_[index_of(side)]; }

  /// Room for one double of every rank, in memory that lives as long as peers may have it mapped.
  double* residuals() const { return edges(halo_sets); }
  static constexpr int most_ranks = 32;

 private:
  Shape shape_;
  std::array<std::ptrdiff_t, side_count> offsets_{};
  std::ptrdiff_t set_doubles_;
  DeviceMemory<double> first_field_, second_field_;
  DeviceMemory<double> buffers_;
};

}  // namespace jacobi2d::gpu
