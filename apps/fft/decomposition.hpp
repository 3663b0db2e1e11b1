// How the cells of the grid are shared out over the ranks while they are transformed, and which of them travel. Pure
// arithmetic, without MPI.
//
// A transform is a row of stages. In each of them a rank has whole lines of one axis, or planes of two, transforms
// those, and sends each rank what belongs to it in the next stage:
//
//   slab     planes of y and z  ─► lines of x
//   pencil   lines of z ─► lines of y ─► lines of x
//
// and the other way round in the inverse transform.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fft {

/// Cells along x, y and z.
using Extents = std::array<std::int64_t, 3>;

constexpr std::int64_t cells_of(const Extents& extents) {
  return extents[0] * extents[1] * extents[2];
}

struct Range {
  std::int64_t first = 0, count = 0;

  std::int64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};

/// The `part`-th of `parts` parts of 0 … extent - 1: the first ones have one more where they differ, the last ones are
/// empty where there are more parts than cells.
Range part_of(std::int64_t extent, int parts, int part);

/// A piece of the grid: its ranges along x, y and z.
struct Box {
  std::array<Range, 3> axes;

  std::int64_t cells() const { return axes[0].count * axes[1].count * axes[2].count; }
  bool operator==(const Box&) const = default;
};

Box intersection(const Box& a, const Box& b);

enum class Decomposition {
  slab,    ///< one axis is shared out, over all ranks
  pencil,  ///< two axes are, over the rows and the columns of the ranks
};

enum class Direction { forward, inverse };

/// Ranks in rows and columns, row by row.
struct RankGrid {
  int rows = 1, columns = 1;

  int ranks() const { return rows * columns; }
};

/// One row of ranks for each (slab), or as square as their number allows, at least as many columns as rows (pencil).
RankGrid rank_grid(Decomposition decomposition, int ranks);

/// Who shares an axis out.
enum class Split { whole, by_row, by_column };

struct Stage {
  std::array<int, 3> order{0, 1, 2};  ///< the axes in memory, from the slowest to the fastest
  int transformed = 1;                ///< so many of the fastest ones are transformed
  std::array<Split, 3> splits{};      ///< by axis
};

/// The stages of a transform, two or three. The first of a direction is the last of the other one.
std::vector<Stage> stages_of(Decomposition decomposition, Direction direction);

Box box_of(const Extents& extents, const Stage& stage, const RankGrid& grid, int rank);

/// What a rank exchanges with each peer, its own rank included, from one stage to the next.
///
/// A block goes in the order in which its sender's stage has the cells. The axis that is slowest there is cut into
/// slices, which may travel one by one; a block has all planes of it that its sender has.
struct Route {
  Stage from, to;
  Box before, after;                 ///< this rank's cells in either stage
  bool in_row = false;               ///< the peers are the rank's row of the grid, else its column
  int peers = 1, self = 0;           ///< how many they are, and which of them this rank is
  std::vector<Box> sent, received;   ///< by peer; boxes without cells among them
  std::vector<std::int64_t> planes;  ///< that each peer has of the axis that is cut
  std::int64_t largest_block = 0;    ///< cells of the largest one between any two peers
  int slices = 1;                    ///< the same for all peers

  int cut_axis() const { return from.order[0]; }
  /// Planes in a slice of what `peer` sends; its last slices may have fewer, and none.
  std::int64_t slice_planes(int peer) const { return (planes[static_cast<std::size_t>(peer)] + slices - 1) / slices; }
  /// The planes of a slice of what `peer` sends, counted from the peer's first.
  Range slice(int peer, int slice) const;
  /// Whether the planes of a slice, of all peers, are planes of the next stage that can be transformed without others.
  bool arrives_in_planes() const { return cut_axis() == to.order[0]; }
};

/// The routes of `rank` between the stages of a transform, one fewer than those. `most_slices`: into which a rank's
/// planes are cut; fewer where there are fewer planes, or where the last slices would be empty on all ranks.
std::vector<Route> routes_of(const Extents& extents, Decomposition decomposition, Direction direction, int ranks,
                             int rank, int most_slices);

/// How blocks lie in a buffer, one behind the other.
enum class Spacing {
  equal,   ///< each takes as much as the largest between any two peers
  exact,   ///< each takes its cells
  slices,  ///< each takes whole slices, so that all of a block are equally large
};

/// Where the blocks lie, by peer, in cells.
struct Places {
  std::vector<std::int64_t> counts;         ///< what a block takes
  std::vector<std::int64_t> displacements;  ///< of its first cell
  std::int64_t size = 0;                    ///< of all
};

Places places_sent(const Route& route, Spacing spacing);
Places places_received(const Route& route, Spacing spacing);

}  // namespace fft
