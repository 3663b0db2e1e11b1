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

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  names.reserve(modes.size() + 1);
  for (const Mode& mode : modes) names.emplace_back(mode.name);
  names.emplace_back("all");
  return names;
}

std::vector<Mode> modes_named(const std::string& name) {
  std::vector<Mode> named;
  for (const Mode& mode : modes) {
    if (name == "all" || name == mode.name) named.push_back(mode);
  }
  return named;
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  Problem& problem = options.problem;
  std::string mode = "all";
  bool no_verify = false;

  CLI::App app(
      "Trains a logistic regression by binary cross-entropy, the samples shared out over the ranks, the gradient "
      "summed "
      "in one of several ways.",
      "partita run bce");
  app.add_option("--mode", mode, "How the gradient is summed; all compares them")
      ->check(CLI::IsMember(mode_names()))
      ->capture_default_str();
  app.add_option("--samples", problem.samples, "Samples of the whole set, at least one a rank")
      ->check(CLI::Range(std::int64_t{1}, most_samples))
      ->capture_default_str();
  app.add_option("--features", problem.features, "Numbers of a sample, and weights to train; the first one is the bias")
      ->check(CLI::Range(1, most_features))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps of gradient descent, each on the whole set")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  app.add_option("--rate", problem.rate, "How far a step follows the gradient")
      ->check(CLI::Range(1e-9, 1e9))
      ->capture_default_str();
  app.add_option("--seed", problem.seed, "Which samples these are")->check(CLI::Range(0, most))->capture_default_str();
  app.add_option("--partitions", options.partitions,
                 "Parts of the gradient in modes nonblocking and partitioned, and of its computation in all; the "
                 "nearest number that divides the features is taken")
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "OpenMP threads of each rank; without it OMP_NUM_THREADS, else an even share of the node's cores")
      ->check(CLI::Range(1, most_threads));
  app.add_option("--repeat", options.repeat,
                 "Run every mode so often, in turns, and report the run with the median time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.json")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json");
  app.add_flag("--no-verify", no_verify, "Do not compare with the weights that one rank trains on the whole set");
  if (auto exit = partita::apps::parse(app, "bce", argc, argv)) return *std::move(exit);

  options.modes = modes_named(mode);
  options.verify = !no_verify;
  return options;
}

}  // namespace bce
