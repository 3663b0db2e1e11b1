#include "bench/tune/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <tuple>

#include "apps/support/shown_command.hpp"
#include "bench/tune/collectives.hpp"

namespace partita::bench::tune {

namespace {

constexpr std::int64_t steps_between_sizes = 4;

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const TunedCollective& collective : tuned_collectives()) names.emplace_back(name_of(collective.kind));
  return names;
}

void check_sizes(const TuneOptions& options) {
  if (options.min_bytes % element_bytes == 0) return;
  throw OptionError(fmt::format("-m begins with {} bytes: expected are whole integers of {} bytes", options.min_bytes,
                                element_bytes));
}

}  // namespace

TuneOptions parse_tune_options(std::span<const std::string> arguments) {
  TuneOptions options;
  CLI::App app{
      "Measures which algorithm moves each collective fastest on this machine, and writes a file for "
      "PARTITA_TUNING",
      "partita tune"};
  app.set_help_flag("--help,-h", "Print this and end");
  std::string device = "host";
  std::string sizes;
  app.add_option("--device", device, "Where the buffers lie: host or gpu")
      ->check(CLI::IsMember({"host", "gpu"}))
      ->capture_default_str();
  app.add_option("--collective", options.collectives,
                 fmt::format("Collectives, a list; default: all of {}", fmt::join(known_names(), ",")))
      ->delimiter(',')
      ->check(CLI::IsMember(known_names()));
  app.add_option("-m,--message-size", sizes,
                 "Sizes of a block MIN:MAX in bytes (K, M, G: powers of 1024), each four times the one before; default "
                 "64:1M");
  app.add_option("-i,--iterations", options.iterations, "Timed samples of each algorithm")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  app.add_option("-x,--warmup", options.warmup, "Untimed samples before them")
      ->check(CLI::Range(0, 100000000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the order in which the algorithms of a round take turns")
      ->capture_default_str();
  app.add_option("-o,--output", options.file, "The file to write; default: standard output");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw HelpWanted(app.help());
  } catch (const CLI::ParseError& error) {
    throw OptionError(fmt::format("{}; partita tune --help lists the options", error.what()));
  }
  options.on_gpu = device == "gpu";
  if (options.collectives.empty()) options.collectives = known_names();
  if (!sizes.empty()) std::tie(options.min_bytes, options.max_bytes) = parse_sizes(sizes, element_bytes);
  check_sizes(options);
  options.command = "partita tune";
  if (!arguments.empty()) options.command += " " + apps::shown_command(arguments);
  return options;
}

std::vector<std::int64_t> sizes_of(const TuneOptions& options) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = options.min_bytes; size <= options.max_bytes; size *= steps_between_sizes) {
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace partita::bench::tune
