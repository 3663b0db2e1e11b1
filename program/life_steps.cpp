#include "program/life_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/life/board.hpp"
#include "apps/life/modes.hpp"
#include "apps/life/report.hpp"
#include "apps/support/collect.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "program/app_modes.hpp"

namespace partita::program {
namespace {

using apps::Division;
using bench::Case;
using bench::Contender;
using bench::Failure;
using bench::Job;

constexpr std::int64_t cell_bytes = sizeof(life::Cell);
constexpr std::int64_t most_cells_of_edge = 1 << 20;
/// Two graphs, and some left over: what is compared, as one rank has to play it alone.
constexpr int generations_compared = 46;

std::int64_t cells_in(std::int64_t size_bytes) {
  if (size_bytes % cell_bytes != 0)
    throw Failure("{} bytes are no whole number of cells of {} bytes.", size_bytes, cell_bytes);
  return size_bytes / cell_bytes;
}

std::array<int, 2> grid_of(const Job& job) {
  std::array<int, 2> dims{};
  bench::check(MPI_Dims_create(job.ranks, 2, dims.data()), "MPI_Dims_create");
  return dims;
}

/// A whole board: square, or twice as wide as it is high.
Division board_of(const Job& job, std::int64_t size_bytes) {
  const auto cells = static_cast<std::uint64_t>(cells_in(size_bytes));
  if (!std::has_single_bit(cells)) throw Failure("{} cells are no board; give -m in powers of two.", cells);
  const int rows = 1 << std::countr_zero(cells) / 2;
  const auto [rank_rows, rank_columns] = grid_of(job);
  return {rows, static_cast<int>(cells / static_cast<std::uint64_t>(rows)), rank_rows, rank_columns};
}

/// A board of which each rank has a square.
Division boards_of_edges(const Job& job, std::int64_t size_bytes) {
  const std::int64_t cells = cells_in(size_bytes);
  if (cells > most_cells_of_edge)
    throw Failure("{} bytes are more than an edge of {} cells has.", size_bytes, most_cells_of_edge);
  const auto [rank_rows, rank_columns] = grid_of(job);
  const int edge = static_cast<int>(cells);
  return {rank_rows * edge, rank_columns * edge, rank_rows, rank_columns};
}

life::Game game_on(const Job& job, const Division& division) {
  if (job.options.batch < 1) throw Failure("--batch {}: expected at least one generation.", job.options.batch);
  if (const auto problem = problem_with(division, job.ranks, 1)) throw Failure("{}.", *problem);
  return {division.rows, division.columns, life::Boundary::periodic, 35, 1};
}

/// The board of one case, on which all modes play the same game.
struct PlayedCase {
  PlayedCase(Job& job_of_it, const Division& division)
      : job(job_of_it), board(MPI_COMM_WORLD, division, game_on(job, division), 1) {
    board.move_to_gpu();
  }

  life::Outcome play(std::string_view mode, int generations) {
    const life::Outcome outcome = board.play(mode, generations);
    last_generations = generations;
    if (mode == life::gpu_mode_names.front()) sweep_us = us_of_each(outcome.time_s - outcome.halo_s, outcome);
    return outcome;
  }
  static double us_of_each(double seconds, const life::Outcome& outcome) { return seconds * 1e6 / outcome.generations; }

  /// Whether the last generation is what one rank plays. The same on all ranks. Collective.
  bool verify(const std::string& mode) {
    const std::vector<life::Cell> whole = board.gather();
    return apps::decide_on_rank_0(board.comm(), [&] {
      if (!one_rank) one_rank.emplace(board.game());
      const auto difference = life::difference(board.division(), whole, one_rank->after(last_generations));
      if (difference) fmt::print(stderr, "partita bench: wrong data: {}: {}\n", mode, *difference);
      return !difference;
    });
  }

  Job& job;
  life::Board board;
  std::optional<life::OneRank> one_rank;  ///< of rank 0
  int last_generations = 0;
  double sweep_us = 0;  ///< of a step of the last game in mode traditional
};

/// As if the steps of mode traditional had no halo: how much of a step the halo is follows from it.
class StepsAlone final : public bench::Measurement {
 public:
  explicit StepsAlone(std::shared_ptr<PlayedCase> scene) : scene_(std::move(scene)) {}
  void prepare(std::uint64_t) override {}
  double sample(const bench::Round&) override { return scene_->sweep_us; }
  bool compare(std::uint64_t) const override { return true; }

 private:
  std::shared_ptr<PlayedCase> scene_;
};

/// Every epoch plays the same game from its beginning, so one that was compared stands for all, unless each is to be.
class Play final : public bench::Measurement {
 public:
  Play(std::shared_ptr<PlayedCase> scene, std::string mode) : scene_(std::move(scene)), mode_(std::move(mode)) {}

  void prepare(std::uint64_t) override {}
  /// Microseconds of a step. What is compared untimed is a shorter game.
  double sample(const bench::Round&) override {
    const bench::Options& options = scene_->job.options;
    compared_ = compared_ && !options.check_every_sample;
    const int generations = is_first_ ? std::min(generations_compared, options.batch) : options.batch;
    is_first_ = false;
    const life::Outcome outcome = scene_->play(mode_, generations);
    return PlayedCase::us_of_each(outcome.time_s, outcome);
  }
  bool compare(std::uint64_t) const override {
    if (!compared_) equal_ = scene_->verify(mode_);
    compared_ = true;
    return equal_;
  }

 private:
  std::shared_ptr<PlayedCase> scene_;
  std::string mode_;
  bool is_first_ = true;
  mutable bool compared_ = false;
  mutable bool equal_ = false;
};

template <Division (*divide)(const Job&, std::int64_t)>
std::vector<Contender> make_life_contenders(Job& job, const bench::Subjects&, const Case& c) {
  const auto scene = std::make_shared<PlayedCase>(job, divide(job, c.size_bytes));
  const std::string reference(life::gpu_mode_names.front());
  std::vector<Contender> found;
  for (const std::string& mode : possible_modes(
           job, life::gpu_mode_names, [&](std::string_view name) { return scene->board.problem_with(name); })) {
    found.push_back({mode, reference, std::make_unique<Play>(scene, mode)});
  }
  found.push_back({"sweeps-alone", reference, std::make_unique<StepsAlone>(scene)});
  return found;
}

void set_life_defaults(bench::Options& options, std::int64_t min_bytes, std::int64_t max_bytes) {
  options.min_bytes = min_bytes;
  options.max_bytes = max_bytes;
  options.partitions = {1};
  options.iterations = 5;
  options.warmup = 1;
  options.batch = 1000;
}

/// What both have.
bench::Benchmark life_benchmark() {
  bench::Benchmark benchmark{};
  benchmark.unit = "us";
  benchmark.compares_subjects = false;
  benchmark.ranks = bench::Ranks::any;
  benchmark.on_gpu = true;
  benchmark.unavailable = bench::gpu::benchmarks().front().unavailable;
  benchmark.lacks = lacked_by_apps();
  benchmark.lacks.insert(benchmark.lacks.end(), {"--nccl", "--gpu-aware-mpi"});
  benchmark.metric_title = "x_traditional";
  benchmark.metric = bench::times_faster;
  return benchmark;
}

}  // namespace

bench::Benchmark queue_fig6_benchmark() {
  bench::Benchmark benchmark = life_benchmark();
  benchmark.name = "queue.fig6";
  benchmark.what = "A step of life on GPUs by the bytes of the whole board, on any number of ranks";
  benchmark.set_defaults = [](bench::Options& options) { set_life_defaults(options, 512 << 10, 128 << 20); };
  benchmark.contenders = make_life_contenders<board_of>;
  return benchmark;
}

bench::Benchmark queue_fig8_benchmark() {
  bench::Benchmark benchmark = life_benchmark();
  benchmark.name = "queue.fig8";
  benchmark.what = "A step of life on GPUs by the bytes of an edge of each rank's block, on any number of ranks";
  benchmark.set_defaults = [](bench::Options& options) { set_life_defaults(options, 512, 32 << 10); };
  benchmark.contenders = make_life_contenders<boards_of_edges>;
  return benchmark;
}

}  // namespace partita::program
