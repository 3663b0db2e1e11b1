#include "apps/jacobi2d/jacobi2d.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "apps/jacobi2d/collect.hpp"
#include "apps/jacobi2d/gpu/solver.hpp"
#include "apps/jacobi2d/modes.hpp"
#include "apps/jacobi2d/options.hpp"
#include "apps/jacobi2d/picture.hpp"
#include "apps/jacobi2d/record.hpp"
#include "apps/jacobi2d/reference.hpp"
#include "apps/jacobi2d/report.hpp"
#include "apps/support/console.hpp"
#include "apps/support/order.hpp"
#include "apps/support/threads.hpp"

namespace jacobi2d {
namespace {

using partita::apps::fail;
using partita::apps::in_drawn_order;
using partita::apps::oversubscription_note;
using partita::apps::say;
using partita::apps::thread_count;

constexpr int picture_pixels = 1024;
constexpr int warm_up_iterations = 20;

const Mode& mode_named(const std::string& name) {
  return *std::find_if(modes.begin(), modes.end(), [&](const Mode& mode) { return mode.name == name; });
}

Division divide(const Options& options, int ranks) {
  std::array<int, 2> dims{options.rank_rows, options.rank_columns};
  if (dims[0] == 0) MPI_Dims_create(ranks, 2, dims.data());
  if (options.multiplier != 0) return multiplied(dims[0], dims[1], options.multiplier);
  return {options.rows, options.columns, dims[0], dims[1]};
}

/// How many partitions a halo shall have; the same on every rank.
int wanted_partitions(const Options& options, const Division& division) {
  if (options.partitions != 0) return options.partitions;
  return options.gpu ? gpu::wanted_partitions(division) : cpu_partitions;
}

/// Several threads call MPI at once in mode `partitioned`.
std::optional<std::string> problem_with_thread_level(const Options& options) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const bool partitioned = std::find(options.modes.begin(), options.modes.end(), "partitioned") != options.modes.end();
  if (!partitioned || omp_get_max_threads() == 1 || level == MPI_THREAD_MULTIPLE) return std::nullopt;
  return "mode partitioned with several threads needs MPI_THREAD_MULTIPLE, which this MPI does not give; use --threads "
         "1";
}

std::string describe(const Plate& plate) {
  const Division& division = plate.division();
  std::string text = fmt::format("Laplace's equation on {} x {} cells, {} ranks ({} x {}), {} thread{} each\n",
                                 division.rows, division.columns, division.ranks(), division.rank_rows,
                                 division.rank_columns, omp_get_max_threads(), omp_get_max_threads() == 1 ? "" : "s");
  if (plate.sides().empty()) return text;
  text += "halos of rank 0:";
  for (const Side side : plate.sides()) {
    constexpr std::array names{"north", "south", "west", "east"};
    text += fmt::format(" {} {} cells in {} partitions;", names[index_of(side)], halo_length(plate.field(0), side),
                        plate.partitions(side));
  }
  text.back() = '\n';
  return text;
}

/// Solves the plate in the mode of this name, on the CPU or on the GPUs.
using Solve = std::function<Outcome(const std::string& mode, const Limits& limits)>;
/// The one-rank solution after so many iterations.
using FindReference = std::function<const Field&(int iterations)>;

/// Connections, matching and page faults of the first iterations are not what the modes differ in.
void warm_up(Plate& plate, const Options& options, const Solve& solve) {
  for (const std::string& name : options.modes) {
    plate.reset();
    solve(name, {warm_up_iterations, 0.0, warm_up_iterations});
  }
}

/// Everything that the runs leave behind on rank 0.
struct Results {
  std::map<std::string, std::vector<Result>> runs;  ///< by mode
  std::vector<double> field;                        ///< the whole grid after the last run
  bool all_passed = true;
};

/// Compares the whole grid with the one-rank solution. Collective; the same verdict on every rank.
bool verify(const Plate& plate, const std::vector<double>& whole, int iterations, const FindReference& reference) {
  return decide_on_rank_0(plate.comm(), [&] {
    const auto difference = first_difference(plate.division(), whole, reference(iterations));
    if (difference) fmt::print(stderr, "jacobi2d: wrong result: {}.\n", describe(*difference));
    return !difference;
  });
}

void run_mode(Plate& plate, const Options& options, const std::string& name, const Solve& solve,
              const FindReference& reference, Results& results) {
  plate.reset();
  const Outcome outcome = solve(name, {options.max_iterations, options.tolerance, options.check_every});
  Result result = summarise(plate, name, outcome);
  if (options.verify || options.picture) results.field = gather(plate, plate.field(outcome.iterations % 2));
  if (options.verify) {
    const bool passed = verify(plate, results.field, outcome.iterations, reference);
    result.check = passed ? Check::passed : Check::failed;
    results.all_passed = results.all_passed && passed;
  }
  say(fmt::format("  {}\n", describe(result)));
  results.runs[name].push_back(std::move(result));
}

std::vector<Result> median_runs(const Options& options, const Results& results) {
  std::vector<Result> medians;
  medians.reserve(options.modes.size());
  for (const std::string& name : options.modes) medians.push_back(median_run(results.runs.at(name)));
  return medians;
}

/// Writes the files on rank 0; false on every rank if that fails.
bool write_files(const partita::apps::Origin& origin, const Plate& plate, const Options& options,
                 const std::vector<Result>& medians, const Results& results) {
  return partita::apps::write_on_rank_0(plate.comm(), "jacobi2d", [&] {
    const std::string history = options.output + "-residual.csv";
    write_history(medians, history);
    say(fmt::format("wrote {}\n", history));
    if (options.picture) {
      const std::string path = options.output + ".png";
      write_png(draw(results.field, plate.division().rows, plate.division().columns, coldest, hottest, picture_pixels),
                path);
      say(fmt::format("wrote {}\n", path));
    }
    if (options.json) {
      const std::string path = options.output + ".json";
      write_record(origin, plate, options, results.runs, path);
      say(fmt::format("wrote {}\n", path));
    }
  });
}

FindReference find_reference(const Plate& plate, const Options& options) {
  if (!options.verify || plate.rank() != 0) return {};
  if (options.gpu_reference) {
    const auto reference = std::make_shared<gpu::Reference>(plate.division(), plate.problem());
    return [reference](int iterations) -> const Field& { return reference->after(iterations); };
  }
  const auto reference = std::make_shared<Reference>(plate.division(), plate.problem());
  return [reference](int iterations) -> const Field& { return reference->after(iterations); };
}

int run_modes(Plate& plate, const Options& options, const Solve& solve) {
  partita::apps::Origin origin = partita::apps::begin_app_origin(options.json, plate.comm(), options.gpu);
  if (options.warm_up) warm_up(plate, options, solve);
  const FindReference reference = find_reference(plate, options);
  Results results;
  for (int repeat = 0; repeat < options.repeat; ++repeat) {
    for (const std::string& name :
         in_drawn_order(options.modes, options.order_seed, static_cast<std::uint64_t>(repeat))) {
      run_mode(plate, options, name, solve, reference, results);
    }
  }
  end_origin(origin);

  const std::vector<Result> medians = median_runs(options, results);
  say(fmt::format("\n{}\n", comparison_table(medians)));
  const bool written = write_files(origin, plate, options, medians, results);
  return results.all_passed && written ? 0 : 1;
}

int solve_on_cpu(const Options& options, const Division& division) {
  Plate plate(MPI_COMM_WORLD, division, wanted_partitions(options, division));
  say(describe(plate) + oversubscription_note(plate.comm(), omp_get_max_threads()));
  return run_modes(plate, options, [&](const std::string& mode, const Limits& limits) {
    return mode_named(mode).solve(plate, limits);
  });
}

/// Takes the modes that cannot run here out of `options` and says why; false if none is left, or not the one asked for.
bool keep_possible_modes(const gpu::Solver& solver, Options& options) {
  std::vector<std::string> possible;
  for (const std::string& mode : options.modes) {
    const auto problem = solver.problem_with(mode);
    if (!problem) {
      possible.push_back(mode);
    } else if (options.all_modes) {
      say(fmt::format("left out: {}\n", *problem));
    } else {
      fail(2, fmt::format("jacobi2d: {}.\n", *problem));
    }
  }
  options.modes = possible;
  return !possible.empty();
}

int solve_on_gpus(Options options, const Division& division) {
  if (const auto problem = gpu::Solver::choose_device(MPI_COMM_WORLD)) {
    return fail(2, fmt::format("jacobi2d: {}.\n", *problem));
  }
  Plate plate(MPI_COMM_WORLD, division, wanted_partitions(options, division));
  gpu::Solver solver(plate, options.nccl);
  options.device_name = solver.describe();
  say(fmt::format("{}{}\n", describe(plate), options.device_name));
  if (!keep_possible_modes(solver, options)) return 2;
  return run_modes(plate, options,
                   [&](const std::string& mode, const Limits& limits) { return solver.solve(mode, limits); });
}

}  // namespace

int command(int argc, char** argv) {
  const auto read = read_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&read)) return partita::apps::end(*exit);
  const Options& options = std::get<Options>(read);

  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  omp_set_num_threads(thread_count(MPI_COMM_WORLD, options.threads));
  const Division division = divide(options, ranks);
  std::optional<std::string> problem = problem_with(division, ranks);
  if (!problem) problem = problem_with_thread_level(options);
  if (problem) return fail(2, fmt::format("jacobi2d: {}.\n", *problem));
  return options.gpu ? solve_on_gpus(options, division) : solve_on_cpu(options, division);
}

}  // namespace jacobi2d
