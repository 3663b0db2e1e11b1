#include "apps/fft/hops.hpp"

#include <algorithm>

namespace fft {
namespace {

void add_hops(const Problem& problem, Direction direction, int ranks, int rank, Spacing spacing,
              std::vector<Hop>& hops) {
  const std::vector<Route> routes =
      routes_of(problem.size, problem.decomposition, direction, ranks, rank, problem.slices);
  for (const Route& route : routes) {
    hops.push_back({route, places_sent(route, spacing), places_received(route, spacing), direction});
  }
  hops.back().last = true;
  if (direction == Direction::inverse) hops.back().scale = 1 / static_cast<double>(cells_of(problem.size));
}

}  // namespace

Hops hops_of(const Problem& problem, int ranks, int rank, Spacing spacing) {
  Hops hops;
  add_hops(problem, Direction::forward, ranks, rank, spacing, hops.all);
  hops.forward_ones = hops.all.size();
  add_hops(problem, Direction::inverse, ranks, rank, spacing, hops.all);
  return hops;
}

Room room_for(const std::vector<Hop>& hops) {
  Room room;
  for (const Hop& hop : hops) {
    room.stage = std::max({room.stage, hop.route.before.cells(), hop.route.after.cells()});
    room.sent = std::max(room.sent, hop.sent.size);
    room.received = std::max(room.received, hop.received.size);
  }
  return room;
}

std::int64_t largest_int(const std::vector<Hop>& hops, Spacing spacing) {
  if (spacing == Spacing::slices) return 0;
  std::int64_t largest = 0;
  for (const Hop& hop : hops) {
    if (spacing == Spacing::equal) {
      largest = std::max(largest, hop.route.largest_block);
      continue;
    }
    for (const Places* const places : {&hop.sent, &hop.received}) {
      for (const std::int64_t number : places->counts) largest = std::max(largest, number);
      for (const std::int64_t number : places->displacements) largest = std::max(largest, number);
    }
  }
  return largest;
}

}  // namespace fft
