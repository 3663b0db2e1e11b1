// Jacobi on GPUs in plain MPI, which knows nothing of GPUs; its twin with partitioned communication is partita.cpp.
//
// Each iteration: one kernel computes all cells, the edges are copied to the host, the stream is synchronised, the host
// sends and receives, and the halo is copied back.
#include <mpi.h>

#include <optional>

#include "apps/jacobi2d/gpu/modes.hpp"

namespace jacobi2d::gpu {
namespace {

/// Edges and halos of all sides in host memory, laid out as in the device block's.
class Staging {
 public:
  explicit Staging(const Rank& rank)
      : rank_(rank),
        edges_(static_cast<std::size_t>(rank.cells.set_doubles())),
        halos_(static_cast<std::size_t>(rank.cells.set_doubles())),
        requests_(2 * rank.plate.sides().size(), MPI_REQUEST_NULL) {
    // The rim lies between the halos, and travels back with them.
    PARTITA_APPS_CUDA(cudaMemcpy(halos_.data(), rank.cells.halos(0), halos_.bytes(), cudaMemcpyDeviceToHost));
  }

  void bring_edges() {
    PARTITA_APPS_CUDA(cudaMemcpyAsync(edges_.data(), rank_.cells.edges(0), edges_.bytes(), cudaMemcpyDeviceToHost,
                                      rank_.stream.get()));
  }
  void take_halos() {
    PARTITA_APPS_CUDA(cudaMemcpyAsync(rank_.cells.halos(0), halos_.data(), halos_.bytes(), cudaMemcpyHostToDevice,
                                      rank_.stream.get()));
  }

  void exchange() {
    const Plate& plate = rank_.plate;
    MPI_Request* request = requests_.data();
    for (const Side side : plate.sides()) {
      MPI_Irecv(halos_.data() + rank_.cells.offset(side), rank_.cells.length(side), MPI_DOUBLE, plate.neighbour(side),
                tag_of(side), plate.comm(), request++);
    }
    for (const Side side : plate.sides()) {
      MPI_Isend(edges_.data() + rank_.cells.offset(side), rank_.cells.length(side), MPI_DOUBLE, plate.neighbour(side),
                tag_of(opposite(side)), plate.comm(), request++);
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  const Rank& rank_;
  PinnedMemory<double> edges_, halos_;
  std::vector<MPI_Request> requests_;
};

/// Seconds of an iteration's kernel, from its launch to the end of the synchronisation, the mean of several. The first
/// iteration computes the same once more.
double time_sweep(const Rank& rank, const Tiling& tiling) {
  constexpr int untimed = 2;
  constexpr int timed = 10;
  const auto sweep = [&] {
    launch_sweep(rank.cells.shape(), tiling, rank.cells.sweep(0, 0, 0, nullptr), rank.stream.get());
    rank.stream.synchronise();
  };
  for (int i = 0; i < untimed; ++i) sweep();
  return timed_together(rank.plate.comm(),
                        [&] {
                          for (int i = 0; i < timed; ++i) sweep();
                        }) /
         timed;
}

}  // namespace

Outcome solve_traditional(const Rank& rank, const Limits& limits) {
  const Tiling tiling = tile_for_launches(rank.cells.shape(), rank.multiprocessors);
  const ChangeWord change(rank.stream);
  HaloClock halo;
  std::optional<Staging> staging;
  const double sweep_s = time_sweep(rank, tiling);
  const double setup_s = timed_together(rank.plate.comm(), [&] { staging.emplace(rank); });

  Outcome outcome = iterate(rank.plate, limits, "traditional", [&](int from, Measure measure) {
    unsigned long long* const word = measure == Measure::change ? change.begin() : nullptr;
    launch_sweep(rank.cells.shape(), tiling, rank.cells.sweep(from, 0, 0, word), rank.stream.get());
    if (!rank.plate.sides().empty()) staging->bring_edges();
    rank.stream.synchronise();
    if (!rank.plate.sides().empty()) {
      const auto timed = halo.measure();
      staging->exchange();
      staging->take_halos();
    }
    return word != nullptr ? change.end() : 0.0;
  });

  rank.stream.synchronise();
  outcome.setup_s = setup_s;
  outcome.sweep_s = sweep_s;
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d::gpu
