#include "apps/jacobi2d/gpu/solver.hpp"

#include <fmt/format.h>

#include <bit>
#include <exception>
#include <stdexcept>

#include "apps/jacobi2d/gpu/modes.hpp"
#include "apps/support/gpus.hpp"

namespace jacobi2d::gpu {
namespace {

std::array<int, side_count> partitions_of(const Plate& plate) {
  std::array<int, side_count> partitions{};
  for (const Side side : plate.sides()) partitions[index_of(side)] = plate.partitions(side);
  return partitions;
}

}  // namespace

unsigned long long* ChangeWord::begin() const {
  PARTITA_APPS_CUDA(cudaMemsetAsync(device_.data(), 0, device_.bytes(), stream_.get()));
  return device_.data();
}

double ChangeWord::end() const {
  PARTITA_APPS_CUDA(
      cudaMemcpyAsync(host_.data(), device_.data(), device_.bytes(), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronise();
  return std::bit_cast<double>(*host_.data());
}

class Solver::Implementation {
 public:
  Implementation(Plate& plate, const std::string& nccl_path)
      : plate_(plate),
        properties_(partita::apps::properties_of_current_gpu()),
        shares_gpu_(partita::apps::ranks_share_a_gpu(plate.comm(), properties_.uuid)),
        cells_(plate.block(), partitions_of(plate)),
        rank_{plate_, cells_, stream_, properties_.multiProcessorCount, shares_gpu_},
        nccl_(plate.comm(), shares_gpu_, nccl_path) {
    load_sweeps();
  }
  ~Implementation() {
    // No peer may still be using this rank's buffers. After an error peers may be anywhere.
    if (std::uncaught_exceptions() == 0) MPI_Barrier(plate_.comm());
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::string describe() const {
    return fmt::format("{}, {}", properties_.name, shares_gpu_ ? "shared by several ranks" : "a GPU for each rank");
  }

  std::optional<std::string> problem_with(std::string_view mode) {
    if (mode == "persistent-kernel") return problem_with_persistent(rank_);
    if (mode == "nccl") return nccl_.problem();
    return std::nullopt;
  }

  Outcome solve(std::string_view mode, const Limits& limits) {
    cells_.upload(plate_.field(0));
    const Outcome outcome = solve_uploaded(mode, limits);
    const int last = outcome.iterations % 2;
    cells_.download(last, plate_.field(last));
    return outcome;
  }

 private:
  Outcome solve_uploaded(std::string_view mode, const Limits& limits) {
    if (mode == "traditional") return solve_traditional(rank_, limits);
    if (mode == "traditional-device") return solve_traditional_device(rank_, limits);
    if (mode == "engine" || mode == "kernel") return solve_partitioned(rank_, limits, std::string(mode));
    if (mode == "persistent-kernel") return solve_persistent(rank_, limits);
    if (mode == "nccl") return solve_nccl(rank_, limits, nccl_.get());
    throw std::logic_error(fmt::format("jacobi2d: there is no mode {} on GPUs.", mode));
  }

  Plate& plate_;
  cudaDeviceProp properties_;
  bool shares_gpu_;
  Stream stream_;
  DeviceBlock cells_;
  Rank rank_;
  partita::apps::NcclMode nccl_;  ///< set up at the first run in this mode: as little its cost as MPI_Init is MPI's
};

std::optional<std::string> Solver::choose_device(MPI_Comm world) {
  return partita::apps::choose_gpu(world);
}

Solver::Solver(Plate& plate, const std::string& nccl_path)
    : implementation_(std::make_unique<Implementation>(plate, nccl_path)) {}
Solver::~Solver() = default;

std::string Solver::describe() const {
  return implementation_->describe();
}
std::optional<std::string> Solver::problem_with(std::string_view mode) const {
  return implementation_->problem_with(mode);
}
Outcome Solver::solve(std::string_view mode, const Limits& limits) {
  return implementation_->solve(mode, limits);
}

}  // namespace jacobi2d::gpu
