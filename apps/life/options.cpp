#include "apps/life/options.hpp"

#include <CLI/CLI.hpp>

#include "apps/life/modes.hpp"
#include "apps/support/command_line.hpp"

namespace life {
namespace {

constexpr int most_cells_a_side = 1 << 24;
constexpr int most = 1'000'000'000;
constexpr int most_partitions = 1 << 16;

partita::apps::ModeNames mode_names() {
  partita::apps::ModeNames names;
  for (const auto& mode : host_modes) names.cpu.emplace_back(mode.name);
  names.gpu.assign(gpu_mode_names.begin(), gpu_mode_names.end());
  return names;
}

/// What is wrong with options that are right each by itself; empty if nothing is.
std::string problem_with(const CLI::App& app, const Options& options, const std::string& mode) {
  std::string wrong = partita::apps::problem_with_mode(mode, mode_names(), options.gpu);
  if (!wrong.empty()) return wrong;
  return options.gpu && app.count("--partitions") > 0 ? "--partitions is for --device cpu" : "";
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  std::vector<int> size{options.game.rows, options.game.columns};
  std::vector<int> ranks;
  std::string mode = "all", device = "cpu", boundary = "periodic";
  bool no_verify = false, no_picture = false;

  CLI::App app("Plays Conway's Game of Life, with the halo exchanged in one of several ways.", "partita run life");
  partita::apps::add_device(app, device, "Where the board lies and is played on");
  partita::apps::add_mode(app, mode, "How the halo is exchanged", mode_names());
  app.add_option("--size", size, "Rows and columns of cells of the whole board")
      ->expected(2)
      ->check(CLI::Range(1, most_cells_a_side))
      ->capture_default_str();
  app.add_option("--boundary", boundary, "What lies beyond the rim: periodic, the opposite rim; bounded, nothing alive")
      ->check(CLI::IsMember(std::vector<std::string>{"periodic", "bounded"}))
      ->capture_default_str();
  app.add_option("--ranks", ranks, "Rows and columns of ranks; without it the MPI divides them")
      ->expected(2)
      ->check(CLI::Range(1, most));
  app.add_option("--generations", options.generations, "Generations to play")
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  app.add_option("--density", options.game.density, "How many of a hundred cells live in the first generation")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--seed", options.game.seed, "Which cells these are")
      ->check(CLI::Range(0, most))
      ->capture_default_str();
  app.add_option("--partitions", options.partitions,
                 "Partitions of each edge in mode partitioned; the nearest number that divides the edge is taken")
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
  partita::apps::add_repeat(app, options.repeat, "mode", "the run with the median time");
  partita::apps::add_order_seed(app, options.order_seed);
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.png")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json too");
  app.add_flag("--no-verify", no_verify,
               "Do not compare with the board that one rank plays; with --no-picture no rank keeps the whole board");
  app.add_flag("--no-picture", no_picture, "Do not write PREFIX.png");
  if (auto exit = partita::apps::parse(app, "life", argc, argv)) return *std::move(exit);

  options.gpu = device == "gpu";
  options.all_modes = mode == "all";
  if (const std::string problem = problem_with(app, options, mode); !problem.empty()) {
    return partita::apps::refused("life", problem);
  }
  options.modes = options.all_modes ? mode_names().of(options.gpu) : std::vector{mode};
  options.game.rows = size[0];
  options.game.columns = size[1];
  options.game.boundary = boundary == "periodic" ? Boundary::periodic : Boundary::bounded;
  if (!ranks.empty()) {
    options.rank_rows = ranks[0];
    options.rank_columns = ranks[1];
  }
  options.verify = !no_verify;
  options.picture = !no_picture;
  return options;
}

}  // namespace life
