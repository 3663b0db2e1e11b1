#include "program/fig10.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bce/report.hpp"
#include "apps/bce/training.hpp"
#include "apps/support/decomposition.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/two_nodes.hpp"
#include "program/app_modes.hpp"

namespace partita::program {
namespace {

using bench::Case;
using bench::Contender;
using bench::Failure;
using bench::Job;

/// Few, so that a step is the gradient's sum more than its computation.
constexpr std::int64_t samples_a_rank = 8;
/// A thread block computes, and marks, as many 8-byte numbers as one of the papers' vector addition.
constexpr int features_a_part = 1024;
constexpr std::int64_t smallest_bytes = 512;
constexpr double rate = 0.01;

int features_of(std::int64_t size_bytes) {
  constexpr std::int64_t number_bytes = sizeof(double);
  if (size_bytes % number_bytes != 0) {
    throw Failure("{} bytes are no whole number of gradients of {} bytes.", size_bytes, number_bytes);
  }
  return static_cast<int>(size_bytes / number_bytes);
}

int gradient_partitions_of(std::int64_t size_bytes) {
  const int features = features_of(size_bytes);
  return apps::partitions_for(features, std::max(1, features / features_a_part));
}

/// The training of one case, which all modes take from its beginning.
struct TrainedCase {
  TrainedCase(Job& job_of_it, const Case& c)
      : job(job_of_it),
        training(
            MPI_COMM_WORLD,
            {.samples = samples_a_rank * job.ranks, .features = features_of(c.size_bytes), .seed = 1, .rate = rate},
            c.partitions, 1) {
    if (job.options.batch < 1) throw Failure("--batch {}: expected at least one step.", job.options.batch);
    training.move_to_gpu(nccl_path(job.options));
  }

  /// Whether `weights` are those that one rank trains. The same answer on all ranks. Collective.
  bool verify(const std::string& mode, const std::vector<double>& weights) {
    if (expected.empty()) expected = bce::train_alone(training.problem(), job.options.batch, 1).weights;
    const double off = bce::difference(weights, expected);
    const bool equal = off <= bce::weight_tolerance;
    if (!equal) {
      fmt::print(stderr, "partita bench: wrong data: {} on rank {}: weights differ by {:.3e} of the largest\n", mode,
                 training.rank(), off);
    }
    return equal;
  }

  Job& job;
  bce::Training training;
  std::vector<double> expected;
};

/// Every epoch trains the same, so one that was compared stands for all, unless each is to be.
class Steps final : public bench::Measurement {
 public:
  Steps(std::shared_ptr<TrainedCase> scene, std::string mode) : scene_(std::move(scene)), mode_(std::move(mode)) {}

  void prepare(std::uint64_t) override {}
  /// Microseconds of a step.
  double sample(const bench::Round&) override {
    const int steps = scene_->job.options.batch;
    const bce::Outcome outcome = scene_->training.run(mode_, steps);
    weights_ = outcome.weights;
    compared_ = compared_ && !scene_->job.options.check_every_sample;
    return outcome.time_s * 1e6 / steps;
  }
  bool compare(std::uint64_t) const override {
    if (!compared_) equal_ = scene_->verify(mode_, weights_);
    compared_ = true;
    return equal_;
  }

 private:
  std::shared_ptr<TrainedCase> scene_;
  std::string mode_;
  std::vector<double> weights_;
  mutable bool compared_ = false;
  mutable bool equal_ = false;
};

/// In a node, and on two: modes that cannot run there need not be left out in so many words.
constexpr std::array<std::string_view, 5> modes_in_a_node{"traditional", "schedule", "in-kernel", "resident", "nccl"};
constexpr std::array<std::string_view, 4> modes_on_two_nodes{"traditional", "schedule", "two-level", "nccl"};

std::vector<Contender> trained_in(Job& job, const Case& c, std::span<const std::string_view> modes) {
  const auto scene = std::make_shared<TrainedCase>(job, c);
  const std::string reference(modes.front());
  std::vector<Contender> found;
  for (const std::string& mode :
       possible_modes(job, modes, [&](std::string_view name) { return scene->training.problem_with(name); })) {
    found.push_back({mode, reference, std::make_unique<Steps>(scene, mode)});
  }
  return found;
}

std::vector<Contender> make_fig10_contenders(Job& job, const bench::Subjects&, const Case& c) {
  return trained_in(job, c, modes_in_a_node);
}

std::vector<Contender> make_fig11_contenders(Job& job, const bench::Subjects&, const Case& c) {
  bench::find_two_nodes(job);
  return trained_in(job, c, modes_on_two_nodes);
}

void set_fig10_defaults(bench::Options& options) {
  options.min_bytes = smallest_bytes;
  options.max_bytes = smallest_bytes << 14;
  options.iterations = 10;
  options.warmup = 1;
  options.batch = 50;
}

bench::Benchmark training_benchmark(std::string_view name, std::string_view what) {
  return {.name = name,
          .what = what,
          .unit = "us",
          .timed_in_batches = true,
          .compares_subjects = false,
          .ranks = bench::Ranks::any,
          .on_gpu = true,
          .unavailable = bench::gpu::benchmarks().front().unavailable,
          .lacks = lacked_by_apps(),
          .set_defaults = set_fig10_defaults,
          .contenders = make_fig10_contenders,
          .partitions_of = gradient_partitions_of,
          .metric_title = "x_traditional",
          .metric = bench::times_faster};
}

}  // namespace

bench::Benchmark fig10_benchmark() {
  return training_benchmark(
      "partitioned.fig10",
      "A step of bce on GPUs, Start and Pbuf_prepare included, by the bytes of the gradient; any number of ranks");
}

bench::Benchmark fig11_benchmark() {
  bench::Benchmark benchmark = training_benchmark(
      "partitioned.fig11",
      "The same on two nodes, an even number of ranks (8 in the paper): kernels in a node, hosts between the two");
  benchmark.ranks = bench::Ranks::even;
  benchmark.contenders = make_fig11_contenders;
  return benchmark;
}

}  // namespace partita::program
