#include "apps/bce/gpu/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "apps/bce/gpu/summing.hpp"
#include "apps/support/clock.hpp"
#include "apps/support/cuda_memory.hpp"
#include "apps/support/gpus.hpp"
#include "apps/support/node.hpp"
#include "apps/support/rank_values.hpp"
#include "apps/support/two_nodes.hpp"

namespace bce::gpu {
namespace {

using partita::apps::Clock;
using partita::apps::DeviceMemory;
using partita::apps::seconds_since;

void upload(const DeviceMemory<double>& memory, const double* values) {
  PARTITA_APPS_CUDA(cudaMemcpy(memory.data(), values, memory.bytes(), cudaMemcpyHostToDevice));
}

/// Ranks whose kernels may sum by themselves (docs/design/collectives.md).
constexpr int most_ranks_in_kernels = 8;

/// Why kernels cannot sum by themselves, the same on every rank; nothing if they may. Collective.
std::optional<std::string> problem_with_kernels(MPI_Comm comm, int ranks_of_my_node) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  if (ranks > most_ranks_in_kernels) return fmt::format("is for at most {} ranks", most_ranks_in_kernels);
  if (partita::apps::on_any_rank(comm, ranks_of_my_node < ranks)) return "needs all ranks on one node";
  return std::nullopt;
}

/// Why kernels cannot sum in each of two nodes, likewise.
std::optional<std::string> problem_with_two_levels(const partita::apps::TwoNodes& nodes, int features) {
  if (nodes.problem()) return nodes.problem();
  const int ranks = nodes.ranks_of_a_node();
  if (ranks > most_ranks_in_kernels) {
    return fmt::format("is for at most {} ranks of a node", most_ranks_in_kernels);
  }
  if (features % ranks != 0) {
    return fmt::format("needs features that divide among the {} ranks of a node, not {}", ranks, features);
  }
  return std::nullopt;
}

/// Steps that sum nothing: what a step's computation takes.
void compute_alone(const Model& model, int steps, cudaStream_t stream) {
  for (int step = 0; step < steps; ++step) {
    launch_forward(model, 0, stream);
    launch_backward(model, nullptr, nullptr, stream);
    launch_update(model, stream);
  }
}

}  // namespace

class Trainer::Implementation {
 public:
  Implementation(MPI_Comm comm, const Problem& problem, const Samples& samples, int parts, const std::string& nccl_path)
      : comm_(comm),
        properties_(partita::apps::properties_of_current_gpu()),
        shares_gpu_(partita::apps::ranks_share_a_gpu(comm, properties_.uuid)),
        features_(static_cast<std::size_t>(problem.features)),
        values_(static_cast<std::size_t>(samples.count()) * features_),
        labels_(static_cast<std::size_t>(samples.count())),
        weights_(features_),
        slopes_(static_cast<std::size_t>(samples.count())),
        own_(features_),
        sum_(features_),
        model_{samples.count(), problem.samples, problem.features, parts,       problem.rate, values_.data(),
               labels_.data(),  weights_.data(), slopes_.data(),   own_.data(), sum_.data(),  nullptr},
        nodes_(comm),
        problem_with_kernels_(problem_with_kernels(comm, nodes_.ranks_of_a_node())),
        problem_with_two_levels_(problem_with_two_levels(nodes_, problem.features)),
        nccl_(comm, shares_gpu_, nccl_path) {
    upload(values_, samples.row(0));
    upload(labels_, samples.labels());
    load_kernels();
    // Ranks that share a GPU share its multiprocessors.
    const int sharing = shares_gpu_ ? partita::apps::find_node(comm).ranks : 1;
    most_blocks_ = std::max(1, std::min(most_training_blocks() / sharing, properties_.multiProcessorCount / sharing));
  }
  ~Implementation() {
    // No peer may still be using this rank's buffers. After an error peers may be anywhere.
    if (std::uncaught_exceptions() == 0) MPI_Barrier(comm_);
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::string describe() const {
    return fmt::format("{}, {}", properties_.name, shares_gpu_ ? "shared by several ranks" : "a GPU for each rank");
  }

  std::optional<std::string> problem_with(std::string_view mode) {
    if (mode == "nccl") return nccl_.problem();
    if ((mode == "in-kernel" || mode == "resident") && problem_with_kernels_) {
      return fmt::format("mode {} {}", mode, *problem_with_kernels_);
    }
    if (mode == "two-level" && problem_with_two_levels_)
      return fmt::format("mode {} {}", mode, *problem_with_two_levels_);
    return std::nullopt;
  }

  Run run(std::string_view mode, int steps) {
    const DeviceMemory<double> losses(static_cast<std::size_t>(steps));
    model_.losses = losses.data();
    Run run;
    const double computation_s = time_computation() * steps;
    PARTITA_APPS_CUDA(cudaMemset(weights_.data(), 0, weights_.bytes()));
    PARTITA_APPS_CUDA(cudaMemset(losses.data(), 0, losses.bytes()));
    PARTITA_APPS_CUDA(cudaDeviceSynchronize());

    MPI_Barrier(comm_);
    auto begin = Clock::now();
    const std::unique_ptr<Steps> taken = make_steps(mode);
    run.setup_s = seconds_since(begin);

    MPI_Barrier(comm_);
    begin = Clock::now();
    taken->take(0, steps);
    stream_.synchronise();
    MPI_Barrier(comm_);
    run.time_s = seconds_since(begin);
    run.exposed_s = std::max(0.0, run.time_s - computation_s);
    taken->look();

    run.weights.resize(features_);
    run.losses.resize(static_cast<std::size_t>(steps));
    PARTITA_APPS_CUDA(cudaMemcpy(run.weights.data(), weights_.data(), weights_.bytes(), cudaMemcpyDeviceToHost));
    PARTITA_APPS_CUDA(cudaMemcpy(run.losses.data(), losses.data(), losses.bytes(), cudaMemcpyDeviceToHost));
    return run;
  }

 private:
  /// Seconds of a step's kernels without a sum, the mean of several.
  double time_computation() {
    constexpr int untimed = 2, timed = 10;
    compute_alone(model_, untimed, stream_.get());
    stream_.synchronise();
    const auto begin = Clock::now();
    compute_alone(model_, timed, stream_.get());
    stream_.synchronise();
    return seconds_since(begin) / timed;
  }

  std::unique_ptr<Steps> make_steps(std::string_view mode) {
    const int wanted =
        std::max<int>(model_.parts, static_cast<int>(std::min<std::int64_t>(model_.samples / 8, 1 << 20)));
    const Rank rank{comm_, model_, stream_, std::clamp(wanted, 1, most_blocks_)};
    if (mode == "traditional") return steps_by_allreduce(rank);
    if (mode == "schedule") return steps_by_schedule(rank);
    if (mode == "in-kernel") return steps_in_kernels(rank, false);
    if (mode == "resident") return steps_in_kernels(rank, true);
    if (mode == "two-level") return steps_in_two_levels(rank, nodes_);
    if (mode == "nccl") return steps_by_nccl(rank, nccl_.get());
    throw std::logic_error(fmt::format("bce: there is no mode {} on GPUs.", mode));
  }

  MPI_Comm comm_;
  cudaDeviceProp properties_;
  bool shares_gpu_;
  std::size_t features_;
  partita::apps::Stream stream_;
  DeviceMemory<double> values_, labels_, weights_, slopes_, own_, sum_;
  Model model_;
  int most_blocks_ = 1;
  partita::apps::TwoNodes nodes_;
  std::optional<std::string> problem_with_kernels_, problem_with_two_levels_;
  partita::apps::NcclMode nccl_;
};

std::optional<std::string> Trainer::choose_device(MPI_Comm world) {
  return partita::apps::choose_gpu(world);
}

Trainer::Trainer(MPI_Comm comm, const Problem& problem, const Samples& samples, int parts, const std::string& nccl_path)
    : implementation_(std::make_unique<Implementation>(comm, problem, samples, parts, nccl_path)) {}
Trainer::~Trainer() = default;

std::string Trainer::describe() const {
  return implementation_->describe();
}
std::optional<std::string> Trainer::problem_with(std::string_view mode) const {
  return implementation_->problem_with(mode);
}
Run Trainer::run(std::string_view mode, int steps) {
  return implementation_->run(mode, steps);
}

}  // namespace bce::gpu
