// Jacobi on GPUs with NCCL's send and receive, for comparison.
//
// Each iteration: one kernel computes all cells, and NCCL's kernel exchanges the edges behind it in the same stream.
// The host waits for neither.
#include "apps/support/nccl.hpp"

#include "apps/jacobi2d/gpu/modes.hpp"

namespace jacobi2d::gpu {

Outcome solve_nccl(const Rank& rank, const Limits& limits, partita::apps::Nccl& nccl) {
  const Tiling tiling = tile_for_launches(rank.cells.shape(), rank.multiprocessors);
  const ChangeWord change(rank.stream);
  HaloClock halo;

  const auto exchange = [&] {
    const auto timed = halo.measure();
    nccl.begin_group();
    for (const Side side : rank.plate.sides()) {
      const std::size_t size_bytes = sizeof(double) * static_cast<std::size_t>(rank.cells.length(side));
      const int neighbour = rank.plate.neighbour(side);
      nccl.receive(rank.cells.halo(0, side), size_bytes, neighbour, rank.stream.get());
      nccl.send(rank.cells.edge(0, side), size_bytes, neighbour, rank.stream.get());
    }
    nccl.end_group();
  };

  Outcome outcome = iterate(rank.plate, limits, "nccl", [&](int from, Measure measure) {
    unsigned long long* const word = measure == Measure::change ? change.begin() : nullptr;
    launch_sweep(rank.cells.shape(), tiling, rank.cells.sweep(from, 0, 0, word), rank.stream.get());
    exchange();
    return word != nullptr ? change.end() : 0.0;
  });

  rank.stream.synchronise();
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d::gpu
