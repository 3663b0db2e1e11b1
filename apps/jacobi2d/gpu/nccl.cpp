// Jacobi on GPUs with NCCL's send and receive, for comparison.
//
// Each iteration: a kernel computes the edges, and NCCL's kernel exchanges them behind it in the same stream, while
// another kernel computes the interior in a stream of its own. The host waits for neither.
//
//   exchange stream   ── edges i ──●── exchange i ─────────┬── edges i+1 ──●──
//                                  └───────────┐           │               │
//   compute stream    ── interior i ───────────┴──●── interior i+1 ────────┴──
//                                                 └────────┘
//
// Interior i+1 reads the edge cells of iteration i, and writes where edges i have read; edges i+1 read the interior's
// outermost cells of iteration i, and write where interior i has read. So each waits for the other's last kernel.
#include "apps/support/nccl.hpp"

#include "apps/jacobi2d/gpu/modes.hpp"

namespace jacobi2d::gpu {

Outcome solve_nccl(const Rank& rank, const Limits& limits, partita::apps::Nccl& nccl) {
  const Tiling tiling = tile_for_launches(rank.cells.shape(), rank.multiprocessors);
  const ChangeWord change(rank.stream);
  const Stream exchanging(Stream::Priority::highest);  // what neighbours wait for goes before the interior
  StreamEvent computed, edges_computed;
  HaloClock halo;

  const auto exchange = [&] {
    const auto timed = halo.measure();
    nccl.begin_group();
    for (const Side side : rank.plate.sides()) {
      const std::size_t size_bytes = sizeof(double) * static_cast<std::size_t>(rank.cells.length(side));
      const int neighbour = rank.plate.neighbour(side);
      nccl.receive(rank.cells.halo(0, side), size_bytes, neighbour, exchanging.get());
      nccl.send(rank.cells.edge(0, side), size_bytes, neighbour, exchanging.get());
    }
    nccl.end_group();
  };

  Outcome outcome = iterate(rank.plate, limits, "nccl", [&](int from, Measure measure) {
    unsigned long long* const word = measure == Measure::change ? change.begin() : nullptr;
    const Sweep sweep = rank.cells.sweep(from, 0, 0, word);
    computed.record(rank.stream);  // the last interior, and the clearing of the word
    computed.hold_back(exchanging);
    edges_computed.hold_back(rank.stream);  // by the last edges; nothing in the first iteration
    launch_sweep(rank.cells.shape(), edges_of(tiling), sweep, exchanging.get());
    edges_computed.record(exchanging);
    launch_sweep(rank.cells.shape(), interior_of(tiling), sweep, rank.stream.get());
    exchange();
    if (word == nullptr) return 0.0;
    edges_computed.hold_back(rank.stream);
    return change.end();
  });

  exchanging.synchronise();
  rank.stream.synchronise();
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d::gpu
