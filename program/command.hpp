// A sub-command of the program, and the tables in which sub-commands and apps are listed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace partita::program {

/// One line of a table. `run` is called by all ranks together between MPI_Init_thread and MPI_Finalize, with argv[0]
/// the name; it returns the process's exit code, which is the same on every rank.
struct Command {
  std::string_view name;
  std::string_view arguments;
  std::string_view summary;
  int (*run)(int argc, char** argv);
};

/// Exit code after a wrong command line.
inline constexpr int usage_error = 2;

/// Calls the command that argv[1] names. `title` and the table are the help that --help prints and that a missing or
/// unknown name is answered with; `path` is what the user typed before the name ("partita run").
int dispatch(std::string_view path, std::string_view title, std::span<const Command> commands, int argc, char** argv);

/// Print on rank 0 only: results to standard output, errors to standard error.
void say(std::string_view text);
void complain(std::string_view text);

/// The sub-commands, each in its own file.
int run_command(int argc, char** argv);
int info_command(int argc, char** argv);

}  // namespace partita::program
