// Jacobi on GPUs with partitioned communication as a host without device requests uses it: what kernels that mark are
// compared with, since it moves the same bytes over the same link.
//
// Each iteration: the requests are started, one kernel computes all cells, the stream is synchronised, and the host
// marks the edges where they lie in GPU memory and waits for the halo.
#include <mpi.h>

#include <array>
#include <memory>

#include "apps/jacobi2d/gpu/modes.hpp"
#include "apps/jacobi2d/gpu/requests.hpp"

namespace jacobi2d::gpu {
namespace {

/// While one set of halos is read, the other one is filled.
constexpr int sets = 2;

void open(HaloSet& set) {
  set.start_receives();
  set.start_sends();
}

}  // namespace

Outcome solve_traditional_device(const Rank& rank, const Limits& limits) {
  const Tiling tiling = tile_for_launches(rank.cells.shape(), rank.multiprocessors);
  const ChangeWord change(rank.stream);
  HaloClock halo;
  std::array<std::unique_ptr<HaloSet>, sets> exchange;
  const double setup_s = timed_together(rank.plate.comm(), [&] {
    for (int i = 0; i < sets; ++i) {
      exchange[static_cast<std::size_t>(i)] =
          std::make_unique<HaloSet>(rank.plate, rank.cells, i, "host", "auto", false);
    }
    // The set that the first iteration fills: this matches it. The other one is answered for meanwhile.
    open(*exchange[1]);
    exchange[1]->prepare_sends();
  });

  int iteration = 0;
  Outcome outcome = iterate(rank.plate, limits, "traditional-device", [&](int from, Measure measure) {
    const int read = iteration++ % sets;
    const int written = iteration % sets;
    HaloSet& set = *exchange[static_cast<std::size_t>(written)];
    if (iteration > 1) {
      const auto timed = halo.measure();
      open(set);
    }
    unsigned long long* const word = measure == Measure::change ? change.begin() : nullptr;
    launch_sweep(rank.cells.shape(), tiling, rank.cells.sweep(from, read, written, word), rank.stream.get());
    rank.stream.synchronise();
    {
      const auto timed = halo.measure();
      set.mark_sends();
      set.wait_for_sends();
      set.wait_for_receives();
    }
    return word != nullptr ? change.end() : 0.0;
  });

  MPI_Barrier(rank.plate.comm());
  outcome.setup_s = setup_s;
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d::gpu
