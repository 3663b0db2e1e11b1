// Jacobi on GPUs with partitioned communication; its twin in plain MPI is mpi.cpp.
//
// Each iteration: the host starts the requests and launches one kernel, whose first thread blocks compute the edges and
// mark them, so that they travel while the others compute the interior. Nobody synchronises the stream: the next
// iteration's kernel awaits the halo itself or, where GPUs are shared or the host moves the bytes, the host awaits it
// before the launch.
#include <mpi.h>

#include <memory>
#include <stdexcept>

#include "apps/jacobi2d/gpu/modes.hpp"
#include "apps/jacobi2d/gpu/requests.hpp"
#include "apps/support/time_limit.hpp"

namespace jacobi2d::gpu {
namespace {

/// The requests of all sets. Iteration i fills set i modulo halo_sets with its edges; iteration i + 1 reads it.
class Exchange {
 public:
  Exchange(const Rank& rank, const std::string& copy, bool kernels_await) {
    for (int i = 0; i < halo_sets; ++i) {
      sets_[static_cast<std::size_t>(i)] =
          std::make_unique<HaloSet>(rank.plate, rank.cells, i, "host", copy, copy == "kernel");
    }
    for (const auto& set : sets_) set->make_device_requests(kernels_await);
  }

  HaloSet& set(int iteration) { return *sets_[static_cast<std::size_t>(index(iteration))]; }
  static int index(int iteration) { return (iteration + halo_sets) % halo_sets; }

  /// Before the launch of `iteration`. Its neighbours may fill the halo that the iteration after it reads, too, unless
  /// this one may be the last: then nobody would.
  void open(int iteration, bool may_be_last) {
    if (opened_ != iteration) {
      open_receives(iteration);
      set(iteration).start_sends();
      // Not opened ahead, so the neighbours may be late; what kernels mark too early would go the engine's way.
      set(iteration).prepare_sends();
    } else {
      set(iteration).start_sends();
    }
    if (!may_be_last) open_receives(iteration + 1);
  }

  void wait_for_all() {
    for (const auto& set : sets_) {
      set->wait_for_sends();
      set->wait_for_receives();
    }
  }

 private:
  void open_receives(int iteration) {
    // The set's last halo was read by the kernel of iteration - halo_sets + 1, and that has sent its edges since.
    set(iteration - halo_sets + 1).wait_for_sends();
    set(iteration).wait_for_receives();
    set(iteration).start_receives();
    opened_ = iteration;
  }

  std::array<std::unique_ptr<HaloSet>, halo_sets> sets_;
  int opened_ = 0;  ///< the newest iteration whose receives were started
};

HaloRequests requests_for(Exchange& exchange, int iteration, bool await, unsigned int* awaited_vainly) {
  const auto& marked = exchange.set(iteration).device();
  const auto& awaited = exchange.set(iteration - 1).device();
  HaloRequests requests{};
  for (int side = 0; side < sides; ++side) {
    requests.send[side] = marked.send[side];
    requests.recv[side] = awaited.recv[side];
  }
  requests.await = await && iteration > 1;
  requests.limit_ns = partita::apps::wait_limit_ns();
  requests.awaited_vainly = awaited_vainly;
  return requests;
}

void check_waits(const unsigned int* awaited_vainly, const std::string& copy) {
  if (*static_cast<const volatile unsigned int*>(awaited_vainly) == 0) return;
  throw std::runtime_error("jacobi2d: mode " + copy + ": a neighbour's halo did not arrive within " +
                           std::to_string(partita::apps::wait_limit_ns() / 1'000'000'000) + " s.");
}

}  // namespace

Outcome solve_partitioned(const Rank& rank, const Limits& limits, const std::string& copy) {
  const bool kernels_await = copy == "kernel" && !rank.shares_gpu;
  const Tiling tiling = tile_for_launches(rank.cells.shape(), rank.multiprocessors);
  const ChangeWord change(rank.stream);
  const PinnedMemory<unsigned int> awaited_vainly(1);
  HaloClock halo;
  std::unique_ptr<Exchange> exchange;
  const double setup_s =
      timed_together(rank.plate.comm(), [&] { exchange = std::make_unique<Exchange>(rank, copy, kernels_await); });

  int iteration = 0;
  Outcome outcome = iterate(rank.plate, limits, copy, [&](int from, Measure measure) {
    ++iteration;
    {
      const auto timed = halo.measure();
      exchange->open(iteration, measure == Measure::change);
      if (!kernels_await) exchange->set(iteration - 1).wait_for_receives();
    }
    unsigned long long* const word = measure == Measure::change ? change.begin() : nullptr;
    const Sweep sweep = rank.cells.sweep(from, Exchange::index(iteration - 1), Exchange::index(iteration), word);
    launch_marking_sweep(rank.cells.shape(), tiling, sweep,
                         requests_for(*exchange, iteration, kernels_await, awaited_vainly.data()), rank.stream.get());
    if (word == nullptr) return 0.0;
    const double largest = change.end();
    check_waits(awaited_vainly.data(), copy);
    return largest;
  });

  exchange->wait_for_all();
  rank.stream.synchronise();
  exchange.reset();
  MPI_Barrier(rank.plate.comm());
  outcome.setup_s = setup_s;
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d::gpu
