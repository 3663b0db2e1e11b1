#include "apps/life/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/support/command_line.hpp"

namespace life {
namespace {

constexpr int most_cells_a_side = 1 << 24;
constexpr int most = 1'000'000'000;
constexpr int most_partitions = 1 << 16;

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  names.reserve(modes.size() + 1);
  for (const Mode& mode : modes) names.emplace_back(mode.name);
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
  std::vector<int> size{options.game.rows, options.game.columns};
  std::vector<int> ranks;
  std::string mode = "all", boundary = "periodic";
  bool no_verify = false, no_picture = false;
  std::vector<std::string> names = mode_names();
  names.emplace_back("all");

  CLI::App app("Plays Conway's Game of Life on a board in host memory, with the halo exchanged in one of several ways.",
               "partita run life");
  app.add_option("--mode", mode, "How the halo is exchanged; all compares them")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
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
  app.add_option("--density", options.game.density, "Of a hundred cells so many live in the first generation")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--seed", options.game.seed, "Which cells these are")
      ->check(CLI::Range(0, most))
      ->capture_default_str();
  app.add_option("--partitions", options.partitions,
                 "Partitions of each edge in mode partitioned; the nearest number that divides the edge is taken")
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
  app.add_option("--repeat", options.repeat,
                 "Run every mode so often, in turns, and report the run with the median time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.png")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json too");
  app.add_flag("--no-verify", no_verify,
               "Do not compare with the board that one rank plays; with --no-picture no rank keeps the whole board");
  app.add_flag("--no-picture", no_picture, "Do not write PREFIX.png");
  if (auto exit = partita::apps::parse(app, "life", argc, argv)) return *std::move(exit);

  options.modes = modes_named(mode);
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
