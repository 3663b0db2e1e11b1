// Who has which cells of fft's grid, and where they lie: each cell belongs to one rank in every stage, and goes to the
// one that has it next, in one slice of one block.
#include "apps/fft/decomposition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "apps/fft/hops.hpp"
#include "apps/fft/packing.hpp"

namespace fft {
namespace {

constexpr int most_ranks = 33;
constexpr Decomposition decompositions[] = {Decomposition::slab, Decomposition::pencil};
constexpr Direction directions[] = {Direction::forward, Direction::inverse};
constexpr Spacing spacings[] = {Spacing::equal, Spacing::exact, Spacing::slices};

/// Sizes with more cells than ranks, with fewer, and with one; the same ones in each run.
std::vector<Extents> sizes() {
  std::vector<Extents> all{{1, 1, 1}, {8, 8, 8}, {1, 40, 3}, {40, 1, 3}, {5, 3, 1}};
  std::mt19937 random(20260728);
  std::uniform_int_distribution<std::int64_t> side(1, 36);
  for (int i = 0; i < 4; ++i) all.push_back({side(random), side(random), side(random)});
  return all;
}

std::string name_of(const Extents& size, Decomposition decomposition, int ranks) {
  return (decomposition == Decomposition::slab ? "slab " : "pencil ") + std::to_string(size[0]) + " x " +
         std::to_string(size[1]) + " x " + std::to_string(size[2]) + " on " + std::to_string(ranks);
}

/// Calls check(size, decomposition, direction, ranks) for many of them.
template <class Check>
void for_each_case(const Check& check) {
  for (const Extents& size : sizes()) {
    for (const Decomposition decomposition : decompositions) {
      for (int ranks = 1; ranks <= most_ranks; ++ranks) {
        SCOPED_TRACE(name_of(size, decomposition, ranks));
        for (const Direction direction : directions) check(size, decomposition, direction, ranks);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(FftParts, follow_one_another_and_differ_by_one_at_most) {
  for (std::int64_t extent = 0; extent < 40; ++extent) {
    for (int parts = 1; parts <= most_ranks; ++parts) {
      std::int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of(extent, parts, part);
        EXPECT_EQ(range.first, next);
        EXPECT_GE(range.count, extent / parts);
        EXPECT_LE(range.count, (extent + parts - 1) / parts);
        next = range.end();
      }
      EXPECT_EQ(next, extent);
    }
  }
}

TEST(FftDecomposition, arranges_all_ranks_in_a_grid) {
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    EXPECT_EQ(rank_grid(Decomposition::slab, ranks).rows, ranks);
    const RankGrid grid = rank_grid(Decomposition::pencil, ranks);
    EXPECT_EQ(grid.ranks(), ranks);
    EXPECT_LE(grid.rows, grid.columns);
  }
  EXPECT_EQ(rank_grid(Decomposition::pencil, 12).rows, 3);
  EXPECT_EQ(rank_grid(Decomposition::pencil, 16).rows, 4);
}

TEST(FftDecomposition, gives_every_cell_to_one_rank_in_every_stage) {
  for_each_case([](const Extents& size, Decomposition decomposition, Direction direction, int ranks) {
    const RankGrid grid = rank_grid(decomposition, ranks);
    for (const Stage& stage : stages_of(decomposition, direction)) {
      std::vector<int> owners(static_cast<std::size_t>(cells_of(size)));
      for (int rank = 0; rank < ranks; ++rank) {
        visit_cells(size, box_of(size, stage, grid, rank), stage.order,
                    [&](std::int64_t cell) { ++owners[static_cast<std::size_t>(cell)]; });
      }
      for (const int each : owners) ASSERT_EQ(each, 1);
    }
  });
}

/// Otherwise a line would be transformed that nobody has as a whole.
TEST(FftDecomposition, has_lines_of_every_axis_whole_where_they_are_transformed) {
  for (const Decomposition decomposition : decompositions) {
    for (const Direction direction : directions) {
      std::array<int, 3> transformed{};
      for (const Stage& stage : stages_of(decomposition, direction)) {
        for (int i = 3 - stage.transformed; i < 3; ++i) {
          const auto axis = static_cast<std::size_t>(stage.order[static_cast<std::size_t>(i)]);
          EXPECT_EQ(stage.splits[axis], Split::whole);
          ++transformed[axis];
        }
      }
      EXPECT_EQ(transformed, (std::array<int, 3>{1, 1, 1}));
    }
    const auto there = stages_of(decomposition, Direction::forward),
               back = stages_of(decomposition, Direction::inverse);
    EXPECT_EQ(there.back().order, back.front().order);
    EXPECT_EQ(there.back().splits, back.front().splits);
    EXPECT_EQ(there.front().order, back.back().order);
    EXPECT_EQ(there.front().splits, back.back().splits);
  }
}

/// The routes of all ranks, from one stage to the next.
std::vector<Route> routes_of_all(const Extents& size, Decomposition decomposition, Direction direction, int ranks,
                                 std::size_t which) {
  std::vector<Route> routes;
  for (int rank = 0; rank < ranks; ++rank) {
    routes.push_back(routes_of(size, decomposition, direction, ranks, rank, 4)[which]);
  }
  return routes;
}

int rank_of_peer(const RankGrid& grid, int rank, const Route& route, int peer) {
  return route.in_row ? rank / grid.columns * grid.columns + peer : peer * grid.columns + rank % grid.columns;
}

TEST(FftRoutes, send_what_the_peer_expects_and_all_of_it) {
  for_each_case([](const Extents& size, Decomposition decomposition, Direction direction, int ranks) {
    const RankGrid grid = rank_grid(decomposition, ranks);
    for (std::size_t which = 0; which + 1 < stages_of(decomposition, direction).size(); ++which) {
      const std::vector<Route> routes = routes_of_all(size, decomposition, direction, ranks, which);
      for (int rank = 0; rank < ranks; ++rank) {
        const Route& own = routes[static_cast<std::size_t>(rank)];
        ASSERT_EQ(rank_of_peer(grid, rank, own, own.self), rank);
        std::int64_t sent = 0, received = 0;
        for (int peer = 0; peer < own.peers; ++peer) {
          const Route& its = routes[static_cast<std::size_t>(rank_of_peer(grid, rank, own, peer))];
          const auto to = static_cast<std::size_t>(peer), from = static_cast<std::size_t>(own.self);
          EXPECT_EQ(own.sent[to], its.received[from]);
          EXPECT_EQ(own.largest_block, its.largest_block);
          EXPECT_EQ(own.slices, its.slices) << "a partitioned collective has as many on all ranks";
          EXPECT_LE(own.sent[to].cells(), own.largest_block);
          sent += own.sent[to].cells();
          received += own.received[to].cells();
        }
        EXPECT_EQ(sent, own.before.cells());
        EXPECT_EQ(received, own.after.cells());
      }
    }
  });
}

TEST(FftRoutes, cut_all_planes_into_slices_and_leave_none_empty_everywhere) {
  for_each_case([](const Extents& size, Decomposition decomposition, Direction direction, int ranks) {
    for (int most_slices : {1, 3, 8}) {
      for (const Route& route : routes_of(size, decomposition, direction, ranks, 0, most_slices)) {
        ASSERT_GE(route.slices, 1);
        ASSERT_LE(route.slices, most_slices);
        bool last_has_planes = route.slices == 1;
        for (int peer = 0; peer < route.peers; ++peer) {
          std::int64_t next = 0;
          for (int slice = 0; slice < route.slices; ++slice) {
            const Range planes = route.slice(peer, slice);
            EXPECT_EQ(planes.first, next);
            EXPECT_LE(planes.count, route.slice_planes(peer));
            next = planes.end();
          }
          EXPECT_EQ(next, route.planes[static_cast<std::size_t>(peer)]);
          last_has_planes = last_has_planes || route.slice(peer, route.slices - 1).count > 0;
          if (route.arrives_in_planes()) {
            EXPECT_EQ(route.planes[static_cast<std::size_t>(peer)], route.planes.front());
          }
        }
        EXPECT_TRUE(last_has_planes);
      }
    }
  });
}

/// The hops of all ranks from one stage to the next, and what each of them has packed there.
struct Packed {
  Packed(const Problem& problem, int ranks, Spacing spacing, std::size_t which) {
    for (int rank = 0; rank < ranks; ++rank) {
      hops.push_back(hops_of(problem, ranks, rank, spacing).all[which]);
      const Hop& hop = hops.back();
      const std::vector<Complex> stage = input_of(problem.size, hop.route.before, hop.route.from.order);
      buffers.emplace_back(static_cast<std::size_t>(hop.sent.size));
      for_each_piece(
          hop, [&](int peer, int slice) { pack(piece_sent(hop, peer, slice), stage.data(), buffers.back().data()); });
    }
  }
  template <class Visit>
  static void for_each_piece(const Hop& hop, const Visit& visit) {
    for (int peer = 0; peer < hop.route.peers; ++peer) {
      for (int slice = 0; slice < hop.route.slices; ++slice) visit(peer, slice);
    }
  }

  std::vector<Hop> hops;
  std::vector<std::vector<Complex>> buffers;
};

/// What `rank` has in the next stage when its peers' blocks have come to it.
std::vector<Complex> unpacked(const Packed& packed, const RankGrid& grid, int rank, Spacing spacing) {
  const Hop& hop = packed.hops[static_cast<std::size_t>(rank)];
  std::vector<Complex> received(static_cast<std::size_t>(hop.received.size));
  for (int peer = 0; peer < hop.route.peers; ++peer) {
    const auto sender = static_cast<std::size_t>(rank_of_peer(grid, rank, hop.route, peer));
    const auto self = static_cast<std::size_t>(hop.route.self), from = static_cast<std::size_t>(peer);
    const Places& sent = packed.hops[sender].sent;
    EXPECT_EQ(sent.counts[self], hop.received.counts[from]);
    if (spacing == Spacing::slices) {
      EXPECT_EQ(sent.counts[self] % hop.route.slices, 0);
    }
    std::copy_n(packed.buffers[sender].begin() + sent.displacements[self], sent.counts[self],
                received.begin() + hop.received.displacements[from]);
  }
  std::vector<Complex> stage(static_cast<std::size_t>(hop.route.after.cells()));
  Packed::for_each_piece(
      hop, [&](int peer, int slice) { unpack(piece_received(hop, peer, slice), received.data(), stage.data(), 2.0); });
  return stage;
}

/// By way of the buffers each cell of every rank comes to its place in the next stage, and no two to the same one.
void expect_cells_in_place(const Problem& problem, int ranks, Spacing spacing) {
  const RankGrid grid = rank_grid(problem.decomposition, ranks);
  for (std::size_t which = 0; which < hops_of(problem, ranks, 0, spacing).all.size(); ++which) {
    const Packed packed(problem, ranks, spacing, which);
    for (int rank = 0; rank < ranks; ++rank) {
      const Route& route = packed.hops[static_cast<std::size_t>(rank)].route;
      std::vector<Complex> expected = input_of(problem.size, route.after, route.to.order);
      for (Complex& each : expected) each *= 2.0;
      ASSERT_EQ(unpacked(packed, grid, rank, spacing), expected) << "hop " << which << ", rank " << rank;
    }
  }
}

TEST(FftPacking, brings_every_cell_to_its_place_in_the_next_stage) {
  const std::vector<Extents> few{{1, 1, 1}, {7, 5, 6}, {3, 8, 9}, {20, 18, 17}};
  for (const Extents& size : few) {
    for (const Decomposition decomposition : decompositions) {
      for (const int ranks : {1, 2, 3, 4, 6, 11}) {
        SCOPED_TRACE(name_of(size, decomposition, ranks));
        for (const Spacing spacing : spacings) expect_cells_in_place({size, decomposition, 3}, ranks, spacing);
      }
    }
  }
}

/// Four ranks, each of which exchanges a quarter of its cells with each; with pencils, a half with each of two.
TEST(FftHops, know_the_largest_int_of_an_exchange) {
  constexpr std::int64_t block = std::int64_t{1} << 28;
  const auto largest = [](Decomposition decomposition, Spacing spacing) {
    Problem problem;
    problem.size = {4096, 1024, 1024};
    problem.decomposition = decomposition;
    return largest_int(hops_of(problem, 4, 0, spacing).all, spacing);
  };
  EXPECT_EQ(largest(Decomposition::slab, Spacing::equal), block);
  EXPECT_EQ(largest(Decomposition::slab, Spacing::exact), 3 * block) << "the last block's place";
  EXPECT_EQ(largest(Decomposition::slab, Spacing::slices), 0) << "counts and places are of MPI's large types";
  EXPECT_EQ(largest(Decomposition::pencil, Spacing::equal), 2 * block);
  EXPECT_EQ(largest(Decomposition::pencil, Spacing::exact), 2 * block);
}

}  // namespace
}  // namespace fft
