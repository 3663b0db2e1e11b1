#include "apps/jacobi2d/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/jacobi2d/modes.hpp"

namespace jacobi2d {
namespace {

constexpr int most_cells_a_side = 1 << 24;
constexpr int most = 1'000'000'000;
constexpr int most_partitions = 1 << 16;
constexpr int most_threads = 1024;

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  names.reserve(modes.size());
  for (const Mode& mode : modes) names.emplace_back(mode.name);
  return names;
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  std::vector<int> size{options.rows, options.columns};
  std::vector<int> ranks;
  std::string mode = "all";
  bool no_verify = false, no_picture = false;

  CLI::App app(
      "Solves Laplace's equation on a plate by Jacobi's method, with the halo exchanged in one of several ways.",
      "partita run jacobi2d");
  std::vector<std::string> choices = mode_names();
  choices.emplace_back("all");
  app.add_option("--mode", mode, "How the halo is exchanged; all compares them")
      ->check(CLI::IsMember(choices))
      ->capture_default_str();
  app.add_option("--size", size, "Rows and columns of cells of the whole plate")
      ->expected(2)
      ->check(CLI::Range(1, most_cells_a_side))
      ->capture_default_str();
  app.add_option("--ranks", ranks, "Rows and columns of ranks; without it the MPI divides them")
      ->expected(2)
      ->check(CLI::Range(1, most));
  app.add_option("--threads", options.threads,
                 "OpenMP threads of a rank; without it OMP_NUM_THREADS, else its share of the cores")
      ->check(CLI::Range(1, most_threads));
  app.add_option("--partitions", options.partitions,
                 "Partitions of each halo, whatever the threads; the nearest number that divides the halo is taken")
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
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
  app.add_option("--repeat", options.repeat,
                 "Run every mode so often, in turns, and report the run with the median time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--output", options.output, "PREFIX of the files PREFIX.png and PREFIX-residual.csv")
      ->type_name("PREFIX")
      ->check([](const std::string& prefix) { return prefix.empty() ? std::string("PREFIX is empty") : std::string(); })
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json too");
  app.add_flag("--no-verify", no_verify, "Do not compare with the solution computed by one rank");
  app.add_flag("--no-picture", no_picture, "Do not write PREFIX.png");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Exit{0, app.help()};
  } catch (const CLI::ParseError& error) {
    return Exit{2, fmt::format("jacobi2d: {}\nSee partita run jacobi2d --help.\n", error.what())};
  }

  options.modes = mode == "all" ? mode_names() : std::vector{mode};
  options.rows = size[0];
  options.columns = size[1];
  if (!ranks.empty()) {
    options.rank_rows = ranks[0];
    options.rank_columns = ranks[1];
  }
  options.verify = !no_verify;
  options.picture = !no_picture;
  return options;
}

}  // namespace jacobi2d
