#include "apps/jacobi2d/gpu/solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <stdexcept>

#include "apps/jacobi2d/gpu/modes.hpp"
#include "apps/support/shared_gpu.hpp"

namespace jacobi2d::gpu {
namespace {

/// The processes of a node, as a communicator that is freed with it.
class NodeComm {
 public:
  explicit NodeComm(MPI_Comm world) {
    int rank = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm_);
  }
  ~NodeComm() { MPI_Comm_free(&comm_); }
  NodeComm(const NodeComm&) = delete;
  NodeComm& operator=(const NodeComm&) = delete;

  int rank() const {
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    return rank;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

bool on_any_rank(MPI_Comm comm, bool here) {
  int flag = here ? 1 : 0, anywhere = 0;
  MPI_Allreduce(&flag, &anywhere, 1, MPI_INT, MPI_MAX, comm);
  return anywhere != 0;
}

cudaDeviceProp properties_of_current() {
  int device = 0;
  cudaDeviceProp properties{};
  JACOBI2D_CUDA(cudaGetDevice(&device));
  JACOBI2D_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

std::array<int, side_count> partitions_of(const Plate& plate) {
  std::array<int, side_count> partitions{};
  for (const Side side : plate.sides()) partitions[index_of(side)] = plate.partitions(side);
  return partitions;
}

}  // namespace

unsigned long long* ChangeWord::begin() const {
  JACOBI2D_CUDA(cudaMemsetAsync(device_.data(), 0, device_.bytes(), stream_.get()));
  return device_.data();
}

double ChangeWord::end() const {
  JACOBI2D_CUDA(cudaMemcpyAsync(host_.data(), device_.data(), device_.bytes(), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronise();
  return std::bit_cast<double>(*host_.data());
}

class Solver::Implementation {
 public:
  Implementation(Plate& plate, const std::string& nccl_path)
      : plate_(plate),
        properties_(properties_of_current()),
        shares_gpu_(partita::apps::ranks_share_a_gpu(plate.comm(), properties_.uuid)),
        cells_(plate.block(), partitions_of(plate)),
        rank_{plate_, cells_, stream_, properties_.multiProcessorCount, shares_gpu_},
        nccl_path_(nccl_path) {
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
    if (mode == "nccl") return problem_with_nccl();
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
  std::optional<std::string> problem_with_nccl() {
    if (shares_gpu_) return "mode nccl needs a GPU for each rank, but several ranks share one";
    std::string problem;
    try {
      if (!nccl_library_)
        nccl_library_.emplace("mode nccl (--nccl or NCCL_LIBRARY gives the path of the library)", nccl_path_);
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
    if (!on_any_rank(plate_.comm(), !problem.empty())) return std::nullopt;
    return problem.empty() ? "mode nccl: another rank cannot load NCCL" : problem;
  }

  Outcome solve_uploaded(std::string_view mode, const Limits& limits) {
    if (mode == "traditional") return solve_traditional(rank_, limits);
    if (mode == "traditional-device") return solve_traditional_device(rank_, limits);
    if (mode == "engine" || mode == "kernel") return solve_partitioned(rank_, limits, std::string(mode));
    if (mode == "persistent-kernel") return solve_persistent(rank_, limits);
    if (mode == "nccl") {
      // problem_with_nccl() has loaded the library, else this mode is not run.
      if (!nccl_) nccl_.emplace(*nccl_library_, plate_.comm());  // NOLINT(bugprone-unchecked-optional-access)
      return solve_nccl(rank_, limits, *nccl_);
    }
    throw std::logic_error(fmt::format("jacobi2d: there is no mode {} on GPUs.", mode));
  }

  Plate& plate_;
  cudaDeviceProp properties_;
  bool shares_gpu_;
  Stream stream_;
  DeviceBlock cells_;
  Rank rank_;
  std::string nccl_path_;
  std::optional<partita::apps::NcclLibrary> nccl_library_;
  std::optional<partita::apps::Nccl>
      nccl_;  ///< made at the first run in this mode: as little its cost as MPI_Init is MPI's
};

std::optional<std::string> Solver::choose_device(MPI_Comm world) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (on_any_rank(world, code != cudaSuccess || devices == 0)) {
    return fmt::format("--device gpu needs a GPU on every node, but CUDA says: {}",
                       code != cudaSuccess ? cudaGetErrorString(code) : "another rank has none");
  }
  JACOBI2D_CUDA(cudaSetDevice(NodeComm(world).rank() % devices));
  return std::nullopt;
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
