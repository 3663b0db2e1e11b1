#include "support/collective_case.hpp"

#include <algorithm>
#include <numeric>

#include "support/index.hpp"

namespace partita::test {

using collective::Kind;
using collective::Problem;
using enum collective::Kind;

bool has_root(Kind kind) {
  return kind == bcast || kind == gather || kind == gatherv || kind == scatter || kind == scatterv || kind == reduce;
}

bool has_in_place(Kind kind) {
  return kind != bcast && kind < neighbor_allgather;
}

bool is_reduction(Kind kind) {
  return kind >= reduce && kind <= exscan;
}

namespace {

using Origins = std::vector<Case::Origin>;

/// Sizes of blocks, some of them 0.
class Sizes {
 public:
  Sizes(const Shape& shape, Random& random) : unit_(is_reduction(shape.kind) ? shape.unit_bytes : 1), random_(random) {}
  std::int64_t one() { return random_.one_in(6) ? 0 : unit_ * random_.between(1, 12); }
  std::vector<std::int64_t> same(int count) { return std::vector<std::int64_t>(index(count), one()); }
  std::vector<std::int64_t> various(int count) {
    std::vector<std::int64_t> sizes(index(count));
    for (std::int64_t& size : sizes) size = one();
    return sizes;
  }

 private:
  std::int64_t unit_;
  Random& random_;
};

void add_gather(Case& made, const Shape& shape, const std::vector<std::int64_t>& sizes, Random& random) {
  for (Problem& problem : made.problems) {
    const bool is_root = problem.rank == shape.root;
    problem.in_place = shape.in_place && is_root;
    if (!problem.in_place || random.one_in(2)) problem.sent = {sizes[index(problem.rank)]};
    if (!is_root) continue;
    problem.received = sizes;
    for (int source = 0; source < shape.size; ++source) {
      const bool is_left_alone = problem.in_place && source == shape.root;
      made.origins[index(shape.root)].push_back(is_left_alone ? Origins{} : Origins{{source, 0}});
    }
  }
}

void add_scatter(Case& made, const Shape& shape, const std::vector<std::int64_t>& sizes, Random& random) {
  for (Problem& problem : made.problems) {
    const bool is_root = problem.rank == shape.root;
    problem.in_place = shape.in_place && is_root;
    if (is_root) problem.sent = sizes;
    if (problem.in_place && random.one_in(2)) continue;
    problem.received = {sizes[index(problem.rank)]};
    made.origins[index(problem.rank)].push_back(problem.in_place ? Origins{} : Origins{{shape.root, problem.rank}});
  }
}

void add_allgather(Case& made, const Shape& shape, const std::vector<std::int64_t>& sizes) {
  for (Problem& problem : made.problems) {
    problem.in_place = shape.in_place;
    problem.sent = {sizes[index(problem.rank)]};
    problem.received = sizes;
    for (int source = 0; source < shape.size; ++source) made.origins[index(problem.rank)].push_back({{source, 0}});
  }
}

void add_alltoall(Case& made, const Shape& shape, Sizes sizes) {
  std::vector<std::vector<std::int64_t>> bytes(index(shape.size));  // from, to
  const std::int64_t same = sizes.one();
  for (auto& row : bytes) {
    row = shape.kind == alltoall ? std::vector<std::int64_t>(index(shape.size), same) : sizes.various(shape.size);
  }
  for (Problem& problem : made.problems) {
    problem.in_place = shape.in_place;
    for (int other = 0; other < shape.size; ++other) {
      const auto [low, high] = std::minmax(problem.rank, other);
      // In place both ways have the same sizes, being the same memory.
      problem.sent.push_back(shape.in_place ? bytes[index(low)][index(high)]
                                            : bytes[index(problem.rank)][index(other)]);
      problem.received.push_back(shape.in_place ? problem.sent.back() : bytes[index(other)][index(problem.rank)]);
      made.origins[index(problem.rank)].push_back({{other, problem.rank}});
    }
  }
}

void add_reduction(Case& made, const Shape& shape, Sizes sizes, Random& random) {
  const std::int64_t bytes = sizes.one();
  for (Problem& problem : made.problems) {
    problem.in_place = shape.in_place && (shape.kind != reduce || problem.rank == shape.root) &&
                       (shape.kind < scan || !random.one_in(3));
    problem.sent = {bytes};
    if (shape.kind == reduce && problem.rank != shape.root) continue;
    problem.received = {bytes};
    const int last = shape.kind == scan ? problem.rank : shape.kind == exscan ? problem.rank - 1 : shape.size - 1;
    Origins& all = made.origins[index(problem.rank)].emplace_back();
    for (int source = 0; source <= last; ++source) all.push_back({source, 0});
  }
}

void add_reduce_scatter(Case& made, const Shape& shape, const std::vector<std::int64_t>& sizes) {
  for (Problem& problem : made.problems) {
    problem.in_place = shape.in_place;
    problem.sent = problem.scattered = sizes;
    problem.received = {sizes[index(problem.rank)]};
    Origins& all = made.origins[index(problem.rank)].emplace_back();
    for (int source = 0; source < shape.size; ++source) all.push_back({source, problem.rank});
  }
}

/// Who sends to whom how much: the same edge may come several times, also from a rank to itself.
void add_neighbors(Case& made, const Shape& shape, Sizes sizes, Random& random) {
  const bool gathers = shape.kind == neighbor_allgather || shape.kind == neighbor_allgatherv;
  const bool various = shape.kind != neighbor_allgather && shape.kind != neighbor_alltoall;
  const std::int64_t same = sizes.one();
  const auto size = [&] { return various ? sizes.one() : same; };
  if (gathers) {
    for (Problem& problem : made.problems) problem.sent = {size()};
  }
  struct Edge {
    int place = 0;  // at the sender
    std::int64_t bytes = 0;
  };
  const int edges = random.integer(0, 3 * shape.size);
  for (int e = 0; e < edges; ++e) {
    made.problems[index(random.integer(0, shape.size - 1))].destinations.push_back(random.integer(0, shape.size - 1));
  }
  std::vector<std::vector<std::vector<Edge>>> arriving(index(shape.size));  // by receiver and sender
  for (auto& senders : arriving) senders.resize(index(shape.size));
  for (Problem& problem : made.problems) {
    if (random.one_in(3)) problem.destinations.push_back(-1);
    random.shuffle(problem.destinations);
    for (int place = 0; place < std::ssize(problem.destinations); ++place) {
      const int to = problem.destinations[index(place)];
      const std::int64_t bytes = gathers ? problem.sent[0] : size();
      if (!gathers) problem.sent.push_back(bytes);
      if (to < 0) continue;
      arriving[index(to)][index(problem.rank)].push_back({gathers ? 0 : place, bytes});
      made.problems[index(to)].sources.push_back(problem.rank);
    }
  }
  for (Problem& problem : made.problems) {
    if (random.one_in(3)) problem.sources.push_back(-1);
    random.shuffle(problem.sources);
    std::vector<std::size_t> met(index(shape.size));
    for (const int from : problem.sources) {
      Origins& origin = made.origins[index(problem.rank)].emplace_back();
      problem.received.push_back(size());
      if (from < 0) continue;
      const Edge& edge = arriving[index(problem.rank)][index(from)][met[index(from)]++];
      problem.received.back() = edge.bytes;
      origin.push_back({from, edge.place});
    }
  }
}

/// A grid of up to three dimensions, some of them periodic.
void add_grid(Case& made, const Shape& shape, Sizes sizes, Random& random) {
  const bool gathers = shape.kind == neighbor_allgather || shape.kind == neighbor_allgatherv;
  const bool various = shape.kind != neighbor_allgather && shape.kind != neighbor_alltoall;
  const std::int64_t same = sizes.one();
  const auto size = [&] { return various ? sizes.one() : same; };
  int left = shape.size, stride = 1;
  const int dimensions = random.integer(1, 3);
  for (int d = 0; d < dimensions; ++d) {
    std::vector<int> divisors;
    for (int divisor = 1; divisor <= left; ++divisor) {
      if (left % divisor == 0) divisors.push_back(divisor);
    }
    const int extent = d + 1 == dimensions ? left : random.of(divisors);
    const bool is_periodic = random.one_in(2);
    for (Problem& problem : made.problems) {
      const int at = problem.rank / stride % extent;
      const auto neighbor = [&](int there) {
        const bool is_outside = there < 0 || there >= extent;
        if (is_outside && !is_periodic) return -1;
        return problem.rank + ((there + extent) % extent - at) * stride;
      };
      problem.destinations.push_back(neighbor(at - 1));
      problem.destinations.push_back(neighbor(at + 1));
    }
    left /= extent;
    stride *= extent;
  }
  for (Problem& problem : made.problems) {
    problem.cartesian = true;
    problem.sources = problem.destinations;
    problem.sent.resize(gathers ? 1 : problem.destinations.size());
    for (std::int64_t& bytes : problem.sent) bytes = size();
  }
  for (Problem& problem : made.problems) {
    for (int place = 0; place < std::ssize(problem.sources); ++place) {
      const int from = problem.sources[index(place)];
      Origins& origin = made.origins[index(problem.rank)].emplace_back();
      problem.received.push_back(size());
      if (from < 0) continue;
      // What comes from the lower neighbour is what that one sends to its upper one.
      origin.push_back({from, gathers ? 0 : place ^ 1});
      problem.received.back() = made.problems[index(from)].sent[index(origin[0].block)];
    }
  }
}

}  // namespace

Case make_case(const Shape& shape, Random& random) {
  Case made(shape.size);
  for (int rank = 0; rank < shape.size; ++rank) {
    Problem& problem = made.problems[index(rank)];
    problem.kind = shape.kind;
    problem.rank = rank;
    problem.size = shape.size;
    problem.root = shape.root;
    problem.unit_bytes = shape.unit_bytes;
    problem.commutative = shape.commutative;
  }
  Sizes sizes(shape, random);
  switch (shape.kind) {
    case bcast: {
      const std::int64_t bytes = sizes.one();
      for (Problem& problem : made.problems) {
        if (problem.rank == shape.root) {
          problem.sent = {bytes};
        } else {
          problem.received = {bytes};
          made.origins[index(problem.rank)].push_back({{shape.root, 0}});
        }
      }
      break;
    }
    case gather:
      add_gather(made, shape, sizes.same(shape.size), random);
      break;
    case gatherv:
      add_gather(made, shape, sizes.various(shape.size), random);
      break;
    case scatter:
      add_scatter(made, shape, sizes.same(shape.size), random);
      break;
    case scatterv:
      add_scatter(made, shape, sizes.various(shape.size), random);
      break;
    case allgather:
      add_allgather(made, shape, sizes.same(shape.size));
      break;
    case allgatherv:
      add_allgather(made, shape, sizes.various(shape.size));
      break;
    case alltoall:
    case alltoallv:
    case alltoallw:
      add_alltoall(made, shape, sizes);
      break;
    case reduce:
    case allreduce:
    case scan:
    case exscan:
      add_reduction(made, shape, sizes, random);
      break;
    case reduce_scatter:
      add_reduce_scatter(made, shape, sizes.various(shape.size));
      break;
    case barrier:
      break;
    case reduce_scatter_block:
      add_reduce_scatter(made, shape, sizes.same(shape.size));
      break;
    default:
      random.one_in(2) ? add_grid(made, shape, sizes, random) : add_neighbors(made, shape, sizes, random);
  }
  return made;
}

}  // namespace partita::test
