#include "apps/bce/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include "apps/bce/modes.hpp"
#include "apps/support/clock.hpp"
#include "apps/support/progress.hpp"

namespace bce {
namespace {

using partita::apps::Clock;
using partita::apps::Progress;
using partita::apps::seconds_since;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int ranks_of(MPI_Comm comm) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

/// The mean over the ranks' samples of what each rank has the sum of.
void share_means(std::vector<double>& sums, std::int64_t samples, MPI_Comm comm) {
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, comm);
  for (double& sum : sums) sum /= static_cast<double>(samples);
}

const Mode& mode_named(std::string_view name) {
  const auto* const found = std::ranges::find(modes, name, &Mode::name);
  if (found == modes.end()) throw std::logic_error(fmt::format("bce: there is no mode {} on the CPU.", name));
  return *found;
}

}  // namespace

Training::Training(MPI_Comm world, const Problem& problem, int parts, int threads)
    : rank_(rank_in(world)),
      ranks_(ranks_of(world)),
      problem_(problem),
      parts_(parts),
      threads_(threads),
      samples_(problem, samples_of(problem, rank_, ranks_), threads) {
  MPI_Comm_dup(world, &comm_);
}

Training::~Training() {
  gpu_.reset();  // its end is a barrier on the communicator
  MPI_Comm_free(&comm_);
}

void Training::move_to_gpu(const std::string& nccl_path) {
  gpu_ = std::make_unique<gpu::Trainer>(comm_, problem_, samples_, parts_, nccl_path);
}

std::string Training::describe_device() const {
  return gpu_ == nullptr ? "" : gpu_->describe();
}

std::optional<std::string> Training::problem_with(std::string_view mode) const {
  return gpu_ == nullptr ? std::nullopt : gpu_->problem_with(mode);
}

Outcome Training::run(std::string_view mode, int steps) {
  Outcome outcome = gpu_ == nullptr ? run_on_cpu(mode, steps) : run_on_gpu(mode, steps);
  share_means(outcome.losses, problem_.samples, comm_);
  std::int64_t correct = correct_of(samples_, outcome.weights, threads_);
  MPI_Allreduce(MPI_IN_PLACE, &correct, 1, MPI_INT64_T, MPI_SUM, comm_);
  outcome.accuracy = static_cast<double>(correct) / static_cast<double>(problem_.samples);
  return outcome;
}

Outcome Training::run_on_gpu(std::string_view mode, int steps) const {
  gpu::Run run = gpu_->run(mode, steps);
  return {.weights = std::move(run.weights),
          .losses = std::move(run.losses),
          .time_s = run.time_s,
          .exposed_s = run.exposed_s,
          .setup_s = run.setup_s};
}

Outcome Training::run_on_cpu(std::string_view mode, int steps) const {
  Outcome outcome;
  const auto features = static_cast<std::size_t>(problem_.features);
  std::vector<double>& weights = outcome.weights;
  weights.assign(features, 0.0);
  std::vector<double> own(features), sum(features), slopes(static_cast<std::size_t>(samples_.count()));
  const Gradient gradient{own, sum, parts_};

  MPI_Barrier(comm_);
  auto begin = Clock::now();
  const std::unique_ptr<Summing> summing = mode_named(mode).make(comm_, gradient, threads_);
  outcome.setup_s = seconds_since(begin);

  const int size = gradient.part_size();
  const auto compute = [&](int part) {
    const int first = part * size;
    backward(samples_, slopes, first,
             std::span(own).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size)));
  };
  const auto use = [&](int part) {
    for (int f = part * size; f < (part + 1) * size; ++f) weights[f] -= problem_.rate * sum[f];
  };
  Progress progress(rank_ == 0);
  MPI_Barrier(comm_);
  begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    outcome.losses.push_back(forward(problem_, samples_, weights, slopes, threads_));
    outcome.exposed_s += summing->step(compute, use);
    if (progress.due()) Progress::say(mode, fmt::format("step {} of {}", step, steps));
  }
  MPI_Barrier(comm_);
  outcome.time_s = seconds_since(begin);
  return outcome;
}

}  // namespace bce
