#include "program/fig8.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/jacobi2d/collect.hpp"
#include "apps/jacobi2d/gpu/solver.hpp"
#include "apps/jacobi2d/reference.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "program/app_modes.hpp"

namespace partita::program {
namespace {

using bench::Case;
using bench::Contender;
using bench::Failure;
using bench::Job;

/// A case is named by the bytes of a rank's longest halo, which double with the multiplier.
constexpr std::int64_t multiplier_bytes = jacobi2d::multiplied_cells * std::int64_t{sizeof(double)};
constexpr int iterations_between_looks = 100;  // at the residual, as in the app

int multiplier_of(std::int64_t size_bytes) {
  if (size_bytes % multiplier_bytes != 0) {
    throw Failure("{} bytes are no halo of {} cells a multiplier; give -m in multiples of {}.", size_bytes,
                  jacobi2d::multiplied_cells, multiplier_bytes);
  }
  return static_cast<int>(size_bytes / multiplier_bytes);
}

jacobi2d::Division division_of(const Job& job, std::int64_t size_bytes) {
  std::array<int, 2> dims{};
  bench::check(MPI_Dims_create(job.ranks, 2, dims.data()), "MPI_Dims_create");
  return jacobi2d::multiplied(dims[0], dims[1], multiplier_of(size_bytes));
}

int halo_partitions_of(std::int64_t size_bytes) {
  const int multiplier = multiplier_of(size_bytes);
  const int wanted = jacobi2d::gpu::wanted_partitions(jacobi2d::multiplied(1, 1, multiplier));
  return jacobi2d::partitions_for(jacobi2d::multiplied_cells * multiplier, wanted);
}

/// The plate of one case, which all modes solve. Its ranks are those of the job, on a communicator that Partita knows.
struct SolvedCase {
  SolvedCase(Job& job_of_it, const Case& c)
      : job(job_of_it),
        plate(MPI_COMM_WORLD, division_of(job, c.size_bytes),
              jacobi2d::gpu::wanted_partitions(division_of(job, c.size_bytes))),
        solver(plate, nccl_path(job.options)) {
    if (job.options.batch < 1) throw Failure("--batch {}: expected at least one iteration.", job.options.batch);
  }

  jacobi2d::Outcome solve(std::string_view mode) {
    plate.reset();
    const jacobi2d::Outcome outcome = solver.solve(mode, {job.options.batch, 0.0, iterations_between_looks});
    if (outcome.sweep_s > 0) sweep_s = outcome.sweep_s;
    return outcome;
  }

  /// Whether the plate as it was left is what one GPU computes, bit by bit. Collective.
  bool verify(const std::string& mode) {
    const std::vector<double> whole = jacobi2d::gather(plate, plate.field(job.options.batch % 2));
    return jacobi2d::decide_on_rank_0(plate.comm(), [&] {
      if (!reference) reference.emplace(plate.division(), plate.problem());
      const auto difference = jacobi2d::first_difference(plate.division(), whole, reference->after(job.options.batch));
      if (difference) fmt::print(stderr, "partita bench: wrong data: {}: {}\n", mode, describe(*difference));
      return !difference;
    });
  }

  Job& job;
  jacobi2d::Plate plate;
  jacobi2d::gpu::Solver solver;
  std::optional<jacobi2d::gpu::Reference> reference;  ///< of rank 0
  double sweep_s = 0;                                 ///< of the last solve that measured it
};

/// As if the iterations of mode traditional had no halo, by what its last solve measured: how much of a step the halo
/// is follows from it.
class SweepsAlone final : public bench::Measurement {
 public:
  explicit SweepsAlone(std::shared_ptr<SolvedCase> scene) : scene_(std::move(scene)) {}
  void prepare(std::uint64_t) override {}
  double sample(const bench::Round&) override { return scene_->sweep_s * scene_->job.options.batch; }
  bool compare(std::uint64_t) const override { return true; }

 private:
  std::shared_ptr<SolvedCase> scene_;
};

/// Every epoch solves the same plate from its beginning, so one that was compared stands for all, unless each is to be.
class Solve final : public bench::Measurement {
 public:
  Solve(std::shared_ptr<SolvedCase> scene, std::string mode) : scene_(std::move(scene)), mode_(std::move(mode)) {}

  void prepare(std::uint64_t) override {}
  /// Seconds, the requests' setup included.
  double sample(const bench::Round&) override {
    const jacobi2d::Outcome outcome = scene_->solve(mode_);
    compared_ = compared_ && !scene_->job.options.check_every_sample;
    return outcome.setup_s + outcome.time_s;
  }
  bool compare(std::uint64_t) const override {
    if (!compared_) equal_ = scene_->verify(mode_);
    compared_ = true;
    return equal_;
  }

 private:
  std::shared_ptr<SolvedCase> scene_;
  std::string mode_;
  mutable bool compared_ = false;
  mutable bool equal_ = false;
};

std::vector<Contender> make_fig8_contenders(Job& job, const bench::Subjects&, const Case& c) {
  const auto scene = std::make_shared<SolvedCase>(job, c);
  const std::string reference(jacobi2d::gpu::mode_names.front());
  std::vector<Contender> found;
  for (const std::string& mode : possible_modes(
           job, jacobi2d::gpu::mode_names, [&](std::string_view name) { return scene->solver.problem_with(name); })) {
    found.push_back({mode, reference, std::make_unique<Solve>(scene, mode)});
  }
  found.push_back({"sweeps-alone", reference, std::make_unique<SweepsAlone>(scene)});
  return found;
}

double gigaflops_a_gpu(double seconds, const Case& c, const bench::Options& options) {
  const double side_cells = static_cast<double>(c.size_bytes) / sizeof(double);
  return seconds > 0 ? jacobi2d::flops_per_cell * side_cells * side_cells * options.batch / seconds * 1e-9 : 0;
}

void set_fig8_defaults(bench::Options& options) {
  options.min_bytes = multiplier_bytes;
  options.max_bytes = multiplier_bytes * 32;
  options.iterations = 5;
  options.warmup = 0;  // the epochs that are compared come first
  options.batch = 1000;
}

}  // namespace

bench::Benchmark fig8_benchmark() {
  return {.name = "partitioned.fig8",
          .what = "jacobi2d on GPUs, its initialisation included, by the bytes of a halo; any number of ranks",
          .unit = "GFLOP/s a GPU",
          .larger_is_better = true,
          .timed_in_batches = true,
          .compares_subjects = false,
          .ranks = bench::Ranks::any,
          .on_gpu = true,
          .unavailable = bench::gpu::benchmarks().front().unavailable,
          .lacks = lacked_by_apps(),
          .set_defaults = set_fig8_defaults,
          .contenders = make_fig8_contenders,
          .partitions_of = halo_partitions_of,
          .value = gigaflops_a_gpu,
          .metric_title = "x_traditional",
          .metric = bench::times_larger};
}

}  // namespace partita::program
