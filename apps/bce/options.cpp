#include "apps/bce/options.hpp"

#include <CLI/CLI.hpp>

#include "apps/support/command_line.hpp"

namespace bce {
namespace {

constexpr std::int64_t most_samples = std::int64_t{1} << 32;
constexpr int most = 1'000'000'000;
constexpr int most_features = 1 << 26;
constexpr int most_partitions = 1 << 16;
constexpr int most_threads = 4096;

partita::apps::ModeNames mode_names() {
  partita::apps::ModeNames names;
  for (const auto& mode : modes) names.cpu.emplace_back(mode.name);
  names.gpu.assign(gpu_mode_names.begin(), gpu_mode_names.end());
  return names;
}

/// What is wrong with options that are right each by itself; empty if nothing is.
std::string problem_with(const CLI::App& app, const Options& options, const std::string& mode) {
  std::string wrong = partita::apps::problem_with_mode(mode, mode_names(), options.gpu);
  if (!wrong.empty()) return wrong;
  return !options.gpu && app.count("--nccl") > 0 ? "--nccl needs --device gpu" : "";
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  Problem& problem = options.problem;
  std::string mode = "all", device = "cpu";
  bool no_verify = false;

  CLI::App app(
      "Trains a logistic regression by binary cross-entropy, the samples shared out over the ranks, the gradient "
      "summed in "
      "one of several ways.",
      "partita run bce");
  partita::apps::add_device(app, device, "Where the samples lie and are computed with");
  partita::apps::add_mode(app, mode, "How the gradient is summed", mode_names());
  app.add_option("--samples", problem.samples, "Samples of the whole set, at least one a rank")
      ->check(CLI::Range(std::int64_t{1}, most_samples))
      ->capture_default_str();
  app.add_option("--features", problem.features, "Numbers of a sample, and weights to train; the first one is the bias")
      ->check(CLI::Range(1, most_features))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps of gradient descent, each on the whole set")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  app.add_option("--rate", problem.rate, "Learning rate: how far a step follows the gradient")
      ->check(CLI::Range(1e-9, 1e9))
      ->capture_default_str();
  app.add_option("--seed", problem.seed, "Which samples these are")->check(CLI::Range(0, most))->capture_default_str();
  app.add_option("--partitions", options.partitions,
                 "Parts in which the gradient is computed; modes nonblocking, partitioned and schedule sum each by "
                 "itself. The nearest number that divides the features is taken")
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "OpenMP threads of each rank; without it OMP_NUM_THREADS, else an even share of the node's cores")
      ->check(CLI::Range(1, most_threads));
  partita::apps::add_repeat(app, options.repeat, "mode", "the run with the median time");
  partita::apps::add_order_seed(app, options.order_seed);
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.json")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_option("--nccl", options.nccl, "The NCCL library of mode nccl; without it $NCCL_LIBRARY, else libnccl.so.2")
      ->type_name("PATH");
  app.add_flag("--json", options.json, "Write every run to PREFIX.json");
  app.add_flag("--no-verify", no_verify, "Do not compare with the weights that one rank trains on the whole set");
  if (auto exit = partita::apps::parse(app, "bce", argc, argv)) return *std::move(exit);

  options.gpu = device == "gpu";
  const std::string wrong = problem_with(app, options, mode);
  if (!wrong.empty()) return partita::apps::refused("bce", wrong);
  options.all_modes = mode == "all";
  options.modes = options.all_modes ? mode_names().of(options.gpu) : std::vector{mode};
  options.verify = !no_verify;
  return options;
}

}  // namespace bce
