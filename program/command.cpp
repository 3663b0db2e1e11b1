#include "program/command.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>

namespace partita::program {
namespace {

bool is_root() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
}

std::string list(std::span<const Command> commands) {
  std::size_t width = 0;
  const auto call = [](const Command& command) { return fmt::format("{} {}", command.name, command.arguments); };
  for (const Command& command : commands) width = std::max(width, call(command).size());
  std::string text;
  for (const Command& command : commands) text += fmt::format("  {:<{}}  {}\n", call(command), width, command.summary);
  return text;
}

}  // namespace

int dispatch(std::string_view path, std::string_view title, std::span<const Command> commands, int argc, char** argv) {
  const std::string help = fmt::format("{}\n\n{}\nEach takes --help.\n", title, list(commands));
  if (argc < 2) {
    complain(fmt::format("{}: what to do is missing.\n\n{}", path, help));
    return usage_error;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h") {
    say(help);
    return 0;
  }
  const auto command =
      std::find_if(commands.begin(), commands.end(), [name](const Command& known) { return known.name == name; });
  if (command == commands.end()) {
    complain(fmt::format("{}: '{}' is not known.\n\n{}", path, name, help));
    return usage_error;
  }
  return command->run(argc - 1, argv + 1);
}

void say(std::string_view text) {
  if (!is_root()) return;
  fmt::print("{}", text);
  std::fflush(stdout);
}

void complain(std::string_view text) {
  if (is_root()) fmt::print(stderr, "{}", text);
}

}  // namespace partita::program
