#include "apps/jacobi2d/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/gpu/solver.hpp"
#include "apps/jacobi2d/modes.hpp"
#include "apps/support/command_line.hpp"

namespace jacobi2d {
namespace {

constexpr int most_cells_a_side = 1 << 24;
constexpr int most = 1'000'000'000;
constexpr int most_partitions = 1 << 16;
constexpr int most_threads = 1024;

partita::apps::ModeNames mode_names() {
  partita::apps::ModeNames names;
  for (const auto& mode : modes) names.cpu.emplace_back(mode.name);
  names.gpu.assign(gpu::mode_names.begin(), gpu::mode_names.end());
  return names;
}

/// What is wrong with options that are right each by itself; empty if nothing is.
std::string problem_with(const CLI::App& app, const Options& options, const std::string& mode) {
  std::string wrong = partita::apps::problem_with_mode(mode, mode_names(), options.gpu);
  if (!wrong.empty()) return wrong;
  if (options.gpu) return {};
  for (const char* option : {"--multiplier", "--nccl", "--no-warm-up"}) {
    if (app.count(option) > 0) return fmt::format("{} needs --device gpu", option);
  }
  if (options.gpu_reference) return "--reference gpu needs --device gpu";
  return {};
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  std::vector<int> size{options.rows, options.columns};
  std::vector<int> ranks;
  std::string mode = "all", device = "cpu", reference;
  bool no_verify = false, no_picture = false, no_warm_up = false;

  CLI::App app(
      "Solves Laplace's equation on a plate by Jacobi's method, with the halo exchanged in one of several ways.",
      "partita run jacobi2d");
  partita::apps::add_device(app, device, "Where the plate is computed");
  partita::apps::add_mode(app, mode, "How the halo is exchanged", mode_names());
  CLI::Option* const size_option = app.add_option("--size", size, "Rows and columns of cells of the whole plate")
                                       ->expected(2)
                                       ->check(CLI::Range(1, most_cells_a_side))
                                       ->capture_default_str();
  app.add_option(
         "--multiplier", options.multiplier,
         fmt::format("On GPUs, instead of --size: so many times {0} x {0} cells for each rank", multiplied_cells))
      ->check(CLI::Range(1, most_cells_a_side / multiplied_cells))
      ->excludes(size_option);
  app.add_option("--ranks", ranks, "Rows and columns of ranks; without it the MPI divides them")
      ->expected(2)
      ->check(CLI::Range(1, most));
  app.add_option("--threads", options.threads,
                 "OpenMP threads of a rank; without it OMP_NUM_THREADS, else its share of the cores")
      ->check(CLI::Range(1, most_threads));
  app.add_option(
         "--partitions", options.partitions,
         fmt::format("Partitions of each halo, whatever the threads; the nearest number that divides the halo is "
                     "taken. Without it {}, on GPUs one for each {} cells",
                     cpu_partitions, gpu::partition_cells))
      ->check(CLI::Range(1, most_partitions));
  app.add_option("--tolerance", options.tolerance,
                 "Stop when no cell changes by more degrees than this in one iteration")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--max-iterations", options.max_iterations, "Stop after so many iterations in any case")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  app.add_option("--check-every", options.check_every, "Iterations between two looks at the residual of all ranks")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  partita::apps::add_repeat(app, options.repeat, "mode", "the run with the median time");
  partita::apps::add_order_seed(app, options.order_seed);
  app.add_option("--output", options.output, "PREFIX of the files PREFIX.png and PREFIX-residual.csv")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_option("--nccl", options.nccl, "The NCCL library of mode nccl; without it $NCCL_LIBRARY, else libnccl.so.2")
      ->type_name("PATH");
  app.add_option(
         "--reference", reference,
         "What computes the solution to compare with: the threads of one rank or its GPU; without it as --device")
      ->check(CLI::IsMember(std::vector<std::string>{"cpu", "gpu"}));
  app.add_flag("--json", options.json, "Write every run to PREFIX.json too");
  app.add_flag(
      "--no-warm-up", no_warm_up,
      "On GPUs: do not run every mode for a few iterations first, so that setup and time have all first contacts");
  app.add_flag("--no-verify", no_verify, "Do not compare with the solution computed by one rank");
  app.add_flag("--no-picture", no_picture, "Do not write PREFIX.png");

  if (auto exit = partita::apps::parse(app, "jacobi2d", argc, argv)) return *std::move(exit);

  options.gpu = device == "gpu";
  options.gpu_reference = (reference.empty() ? device : reference) == "gpu";
  const std::string problem = problem_with(app, options, mode);
  if (!problem.empty()) return partita::apps::refused("jacobi2d", problem);

  options.all_modes = mode == "all";
  options.modes = options.all_modes ? mode_names().of(options.gpu) : std::vector{mode};
  options.rows = size[0];
  options.columns = size[1];
  if (!ranks.empty()) {
    options.rank_rows = ranks[0];
    options.rank_columns = ranks[1];
  }
  options.warm_up = !no_warm_up;
  options.verify = !no_verify;
  options.picture = !no_picture;
  return options;
}

}  // namespace jacobi2d
