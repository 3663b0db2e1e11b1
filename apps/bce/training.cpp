#include "apps/bce/training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <span>

#include "apps/support/progress.hpp"

namespace bce {
namespace {

using partita::apps::Progress;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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

}  // namespace

std::unique_ptr<Summing> make_summing(Way way, MPI_Comm comm, const Gradient& gradient, int threads) {
  switch (way) {
    case Way::allreduce:
      return sum_by_allreduce(comm, gradient, threads);
    case Way::nonblocking:
      return sum_by_nonblocking(comm, gradient, threads);
    case Way::partitioned:
      break;
  }
  return sum_by_partitions(comm, gradient, threads);
}

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
  MPI_Comm_free(&comm_);
}

Outcome Training::run(const Mode& mode, int steps) {
  Outcome outcome;
  const auto features = static_cast<std::size_t>(problem_.features);
  std::vector<double>& weights = outcome.weights;
  weights.assign(features, 0.0);
  std::vector<double> own(features), sum(features), slopes(static_cast<std::size_t>(samples_.count()));
  const Gradient gradient{own, sum, parts_};

  MPI_Barrier(comm_);
  auto begin = Clock::now();
  const std::unique_ptr<Summing> summing = make_summing(mode.way, comm_, gradient, threads_);
  outcome.setup_s = seconds_since(begin);

  const int size = gradient.part_size();
  const auto compute = [&](int part) {
    backward(samples_, slopes, part * size, std::span(own).subspan(static_cast<std::size_t>(part * size), size));
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
    if (progress.due()) Progress::say(mode.name, fmt::format("step {} of {}", step, steps));
  }
  MPI_Barrier(comm_);
  outcome.time_s = seconds_since(begin);

  share_means(outcome.losses, problem_.samples, comm_);
  std::vector<double> right{hits(samples_, weights, threads_) * static_cast<double>(samples_.count())};
  share_means(right, problem_.samples, comm_);
  outcome.hits = right[0];
  return outcome;
}

}  // namespace bce
