// Jacobi as one kernel on each GPU: it starts, marks and awaits its partitioned requests itself, and finds the residual
// of all ranks; the host sleeps until the solve has ended.
#include <mpi.h>

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "apps/jacobi2d/gpu/modes.hpp"
#include "apps/jacobi2d/gpu/requests.hpp"
#include "apps/jacobi2d/gpu/residents.hpp"
#include "apps/support/time_limit.hpp"

namespace jacobi2d::gpu {
namespace {

constexpr int residual_tag = halo_sets * side_count;

int ranks_of(const Plate& plate) {
  return plate.division().ranks();
}

/// Every rank's residual to every other rank: one double each.
class ResidualRequests {
 public:
  explicit ResidualRequests(const Rank& rank) : own_(rank.cells.residuals()), received_(own_ + 1) {
    const Plate& plate = rank.plate;
    const Info info{{"partita_driver", "device"}};
    for (int other = 0; other < ranks_of(plate); ++other) {
      if (other == plate.rank()) continue;
      double* const into = received_ + receives_.size();
      MPI_Precv_init(into, 1, 1, MPI_DOUBLE, other, residual_tag, plate.comm(), info.get(), &receives_.emplace_back());
      MPI_Psend_init(own_, 1, 1, MPI_DOUBLE, other, residual_tag, plate.comm(), info.get(), &sends_.emplace_back());
    }
  }
  ~ResidualRequests() {
    for (MPIX_Prequest& device : device_) MPIX_Prequest_free(&device);
    for (auto* requests : {&sends_, &receives_}) {
      for (MPI_Request& request : *requests) MPI_Request_free(&request);
    }
  }
  ResidualRequests(const ResidualRequests&) = delete;
  ResidualRequests& operator=(const ResidualRequests&) = delete;

  /// Blocks until all are matched.
  void give_to(Residents& residents) {
    residents.other_ranks = static_cast<int>(sends_.size());
    residents.own_residual = own_;
    residents.residuals = received_;
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      residents.residual_send[i] = make(sends_[i]);
      residents.residual_recv[i] = make(receives_[i]);
    }
  }

 private:
  MPIX_Prequest make(MPI_Request request) {
    MPIX_Prequest& device = device_.emplace_back();
    MPIX_Prequest_create(&device, request);
    if (device.limit_ns == 0) device.limit_ns = partita::apps::wait_limit_ns();
    return device;
  }

  double *own_, *received_;
  std::vector<MPI_Request> sends_, receives_;
  std::vector<MPIX_Prequest> device_;
};

/// Everything that the kernel needs beside the cells.
class Job {
 public:
  Job(const Rank& rank, const Limits& limits)
      : residual_(rank),
        blocks_(resident_blocks(rank.cells.shape(), rank.multiprocessors)),
        change_(1),
        looks_(static_cast<std::size_t>(limits.max_iterations / limits.check_every) + 1),
        result_(1) {
    for (int set = 0; set < resident_sets; ++set) {
      halo_[set] = std::make_unique<HaloSet>(rank.plate, rank.cells, set, "device", "auto", true);
    }
    residents_.shape = rank.cells.shape();
    residents_.tiling = tile_for_residents(rank.cells.shape(), blocks_, rank.multiprocessors);
    for (int i = 0; i < sweep_kinds; ++i) {
      residents_.sweeps[i] =
          rank.cells.sweep((i + 1) % 2, (i + resident_sets - 1) % resident_sets, i % resident_sets, change_.data());
    }
    for (int set = 0; set < resident_sets; ++set) {
      halo_[set]->make_device_requests(true);
      for (int side = 0; side < sides; ++side) {
        residents_.send[set][side] = halo_[set]->device().send[side];
        residents_.recv[set][side] = halo_[set]->device().recv[side];
      }
    }
    residual_.give_to(residents_);
    residents_.max_iterations = limits.max_iterations;
    residents_.check_every = limits.check_every;
    residents_.tolerance = limits.tolerance;
    residents_.looks = looks_.data();
    residents_.result = result_.data();
  }

  /// Sleeps until the kernel has ended.
  void run(const Stream& stream) const {
    SleepingEvent ended;
    launch_residents(residents_, blocks_, stream.get());
    ended.record(stream);
    ended.wait();
  }

  Outcome outcome() const {
    ResidentsResult result{};
    PARTITA_APPS_CUDA(cudaMemcpy(&result, result_.data(), sizeof(result), cudaMemcpyDeviceToHost));
    if (result.failure != 0) {
      throw std::runtime_error(
          fmt::format("jacobi2d: mode persistent-kernel: a call in the kernel returned {} (PARTITA_DEVICE_ERR_*, "
                      "partita/device/prequest.h) by iteration {}.",
                      result.failure, result.iterations));
    }
    std::vector<Look> looks(static_cast<std::size_t>(result.looks));
    PARTITA_APPS_CUDA(cudaMemcpy(looks.data(), looks_.data(), looks.size() * sizeof(Look), cudaMemcpyDeviceToHost));

    Outcome outcome;
    outcome.iterations = result.iterations;
    outcome.converged = result.converged != 0;
    for (const Look& look : looks) {
      outcome.history.push_back({look.iteration, look.residual, static_cast<double>(look.time_ns) * 1e-9});
    }
    outcome.halo_time_s = static_cast<double>(result.waited_ns) * 1e-9;
    return outcome;
  }

 private:
  std::array<std::unique_ptr<HaloSet>, resident_sets> halo_;
  ResidualRequests residual_;
  int blocks_;
  DeviceMemory<unsigned long long> change_;
  DeviceMemory<Look> looks_;
  DeviceMemory<ResidentsResult> result_;
  Residents residents_{};
};

}  // namespace

std::optional<std::string> problem_with_persistent(const Rank& rank) {
  if (rank.shares_gpu) return "mode persistent-kernel needs a GPU for each rank, but several ranks share one";
  if (ranks_of(rank.plate) - 1 > most_other_ranks) {
    return fmt::format("mode persistent-kernel is for at most {} ranks", most_other_ranks + 1);
  }
  return std::nullopt;
}

Outcome solve_persistent(const Rank& rank, const Limits& limits) {
  std::unique_ptr<Job> job;
  const double setup_s = timed_together(rank.plate.comm(), [&] { job = std::make_unique<Job>(rank, limits); });

  const double time_s = timed_together(rank.plate.comm(), [&] { job->run(rank.stream); });
  Outcome outcome = job->outcome();
  outcome.setup_s = setup_s;
  outcome.time_s = time_s;
  // Peers hold mappings of this rank's buffers as long as their requests live.
  MPI_Barrier(rank.plate.comm());
  return outcome;
}

}  // namespace jacobi2d::gpu
