#include "apps/cg/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/cg/modes.hpp"
#include "apps/support/command_line.hpp"

namespace cg {
namespace {

constexpr int most_points_a_side = 1 << 24;
constexpr int most = 1'000'000'000;
constexpr int most_in_a_batch = 10'000;

partita::apps::ModeNames mode_names() {
  return {{host_modes.begin(), host_modes.end()}, {gpu_modes.begin(), gpu_modes.end()}};
}

/// What is wrong with options that are right each by itself; empty if nothing is.
std::string problem_with(const CLI::App& app, const Options& options, const std::string& mode) {
  std::string wrong = partita::apps::problem_with_mode(mode, mode_names(), options.gpu);
  if (!wrong.empty()) return wrong;
  if (!options.gpu && app.count("--sums") > 0) return "--sums needs --device gpu";
  if (options.verify && options.limits.tolerance > checkable_tolerance) {
    return fmt::format(
        "--tolerance {} is too large to compare solutions with one rank's, to which {} belongs; "
        "--no-verify leaves that out",
        options.limits.tolerance, checkable_tolerance);
  }
  return "";
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  std::vector<int> size{options.problem.rows, options.problem.columns};
  std::string mode = "all", device = "cpu";
  bool no_verify = false;

  CLI::App app(
      "Solves Poisson's equation on a grid, whose rows are shared out over the ranks, by the method of conjugate "
      "gradients, in which the ranks communicate in one of several ways.",
      "partita run cg");
  partita::apps::add_device(app, device, "Where the vectors lie and are computed with");
  partita::apps::add_mode(app, mode, "How the ranks communicate", mode_names());
  app.add_option("--size", size, "Rows and columns of the grid's inner points; at least a row a rank")
      ->expected(2)
      ->check(CLI::Range(1, most_points_a_side))
      ->capture_default_str();
  app.add_option("--tolerance", options.limits.tolerance,
                 "How small the residual becomes by that of the beginning; 0: all --iterations are run")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--iterations", options.limits.iterations,
                 "The most iterations, in whole batches; a run that has not converged then has failed")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  app.add_option("--batch", options.limits.batch,
                 "Iterations from one look of the host's at the residual to the next; in mode graph those of a graph")
      ->check(CLI::Range(1, most_in_a_batch))
      ->capture_default_str();
  app.add_option("--sums", options.sums,
                 "On GPUs, who does the enqueued allreduces: kernels in the stream, without the host, or the progress "
                 "engine; auto: kernels on up to 8 ranks of one node")
      ->check(CLI::IsMember(std::vector<std::string>{"auto", "kernels", "engine"}))
      ->capture_default_str();
  partita::apps::add_repeat(app, options.repeat, "mode", "the mean time of an iteration with its 95 % interval");
  partita::apps::add_order_seed(app, options.order_seed);
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.json")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json");
  app.add_flag("--no-verify", no_verify,
               "Compare with neither the solution that one rank finds nor the known one, and let runs end before they "
               "have converged");
  if (auto exit = partita::apps::parse(app, "cg", argc, argv)) return *std::move(exit);

  options.gpu = device == "gpu";
  options.verify = !no_verify;
  options.problem = {size[0], size[1]};
  const std::string wrong = problem_with(app, options, mode);
  if (!wrong.empty()) return partita::apps::refused("cg", wrong);
  options.all_modes = mode == "all";
  options.modes = options.all_modes ? mode_names().of(options.gpu) : std::vector{mode};
  return options;
}

}  // namespace cg
