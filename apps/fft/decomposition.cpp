#include "apps/fft/decomposition.hpp"

#include <algorithm>
#include <cmath>

namespace fft {
namespace {

constexpr int x = 0, y = 1, z = 2;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// The cells of a plane of a block; 0 where it has none.
std::int64_t plane_cells(const Stage& from, const Box& block) {
  return block.axes[at(from.order[1])].count * block.axes[at(from.order[2])].count;
}

/// One block behind the other; `count_of(peer)`: the cells that a block takes.
template <class CountOf>
Places places(int peers, const CountOf& count_of) {
  Places places;
  for (int peer = 0; peer < peers; ++peer) {
    places.counts.push_back(count_of(peer));
    places.displacements.push_back(places.size);
    places.size += places.counts.back();
  }
  return places;
}

std::int64_t count_of(const Route& route, const Box& block, int sender, Spacing spacing) {
  switch (spacing) {
    case Spacing::equal:
      return route.largest_block;
    case Spacing::exact:
      return block.cells();
    case Spacing::slices:
      return route.slices * route.slice_planes(sender) * plane_cells(route.from, block);
  }
  return 0;
}

/// The rank that is `peer` among those that `rank` exchanges with.
int rank_of_peer(const RankGrid& grid, int rank, bool in_row, int peer) {
  return in_row ? rank / grid.columns * grid.columns + peer : peer * grid.columns + rank % grid.columns;
}

/// So many that a slice has as few planes as `most` slices can have, and that none is empty for the rank with most.
int slices_for(std::int64_t most_planes, int most) {
  if (most_planes == 0) return 1;
  const std::int64_t planes_each = (most_planes + most - 1) / most;
  return static_cast<int>((most_planes + planes_each - 1) / planes_each);
}

Route route_between(const Extents& extents, const Stage& from, const Stage& to, const RankGrid& grid, int rank,
                    int most_slices) {
  Route route;
  route.from = from;
  route.to = to;
  route.before = box_of(extents, from, grid, rank);
  route.after = box_of(extents, to, grid, rank);
  // Two axes change their shares; one of them was split by the ranks' row or column in which the peers are.
  route.in_row = std::ranges::any_of(std::array{x, y, z}, [&](int axis) {
    return from.splits[at(axis)] == Split::by_column && to.splits[at(axis)] == Split::whole;
  });
  route.peers = route.in_row ? grid.columns : grid.rows;
  route.self = route.in_row ? rank % grid.columns : rank / grid.columns;
  std::vector<Box> before, after;
  for (int peer = 0; peer < route.peers; ++peer) {
    const int its_rank = rank_of_peer(grid, rank, route.in_row, peer);
    before.push_back(box_of(extents, from, grid, its_rank));
    after.push_back(box_of(extents, to, grid, its_rank));
    route.sent.push_back(intersection(route.before, after.back()));
    route.received.push_back(intersection(before.back(), route.after));
    route.planes.push_back(before.back().axes[at(route.cut_axis())].count);
  }
  for (const Box& sender : before) {
    for (const Box& receiver : after) {
      route.largest_block = std::max(route.largest_block, intersection(sender, receiver).cells());
    }
  }
  route.slices = slices_for(std::ranges::max(route.planes), most_slices);
  return route;
}

}  // namespace

Range part_of(std::int64_t extent, int parts, int part) {
  const std::int64_t each = extent / parts, more = extent % parts;
  return {part * each + std::min<std::int64_t>(part, more), each + (part < more ? 1 : 0)};
}

Box intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t first = std::max(a.axes[axis].first, b.axes[axis].first);
    const std::int64_t end = std::min(a.axes[axis].end(), b.axes[axis].end());
    both.axes[axis] = {first, std::max<std::int64_t>(end - first, 0)};
  }
  return both;
}

RankGrid rank_grid(Decomposition decomposition, int ranks) {
  if (decomposition == Decomposition::slab) return {ranks, 1};
  int rows = static_cast<int>(std::sqrt(static_cast<double>(ranks)));
  while (ranks % rows != 0) --rows;
  return {rows, ranks / rows};
}

std::vector<Stage> stages_of(Decomposition decomposition, Direction direction) {
  constexpr Split whole = Split::whole, by_row = Split::by_row, by_column = Split::by_column;
  const bool forward = direction == Direction::forward;
  if (decomposition == Decomposition::slab) {
    const Stage planes{{x, y, z}, 2, {by_row, whole, whole}};
    const Stage lines{{y, z, x}, 1, {whole, by_row, whole}};
    return forward ? std::vector{planes, lines} : std::vector{lines, planes};
  }
  const Stage lines_of_z{{x, y, z}, 1, {by_row, by_column, whole}};
  const Stage lines_of_x{{z, y, x}, 1, {whole, by_row, by_column}};
  // In the middle the axis is slowest that the last exchange leaves alone: its slices are planes of the last stage.
  const Stage lines_of_y{forward ? std::array{z, x, y} : std::array{x, z, y}, 1, {by_row, whole, by_column}};
  return forward ? std::vector{lines_of_z, lines_of_y, lines_of_x} : std::vector{lines_of_x, lines_of_y, lines_of_z};
}

Box box_of(const Extents& extents, const Stage& stage, const RankGrid& grid, int rank) {
  Box box;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    switch (stage.splits[axis]) {
      case Split::whole:
        box.axes[axis] = {0, extents[axis]};
        break;
      case Split::by_row:
        box.axes[axis] = part_of(extents[axis], grid.rows, rank / grid.columns);
        break;
      case Split::by_column:
        box.axes[axis] = part_of(extents[axis], grid.columns, rank % grid.columns);
        break;
    }
  }
  return box;
}

Range Route::slice(int peer, int slice) const {
  const std::int64_t each = slice_planes(peer), all = planes[at(peer)];
  const std::int64_t first = std::min(slice * each, all);
  return {first, std::min(each, all - first)};
}

std::vector<Route> routes_of(const Extents& extents, Decomposition decomposition, Direction direction, int ranks,
                             int rank, int most_slices) {
  const RankGrid grid = rank_grid(decomposition, ranks);
  const std::vector<Stage> stages = stages_of(decomposition, direction);
  std::vector<Route> routes;
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    routes.push_back(route_between(extents, stages[i], stages[i + 1], grid, rank, most_slices));
  }
  return routes;
}

Places places_sent(const Route& route, Spacing spacing) {
  return places(route.peers, [&](int peer) { return count_of(route, route.sent[at(peer)], route.self, spacing); });
}

Places places_received(const Route& route, Spacing spacing) {
  return places(route.peers, [&](int peer) { return count_of(route, route.received[at(peer)], peer, spacing); });
}

}  // namespace fft
