// What the tests of the apps share.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "apps/support/decomposition.hpp"
#include "support/job.hpp"

namespace partita::test {

/// All ways to arrange the job's ranks in rows and columns of blocks.
inline std::vector<apps::Division> divisions_of(int rows, int columns) {
  std::vector<apps::Division> divisions;
  for (int rank_rows = 1; rank_rows <= ranks(); ++rank_rows) {
    if (ranks() % rank_rows != 0) continue;
    const apps::Division division{rows, columns, rank_rows, ranks() / rank_rows};
    if (!problem_with(division, ranks())) divisions.push_back(division);
  }
  return divisions;
}

/// Calls an app's `command` with these arguments behind its name; its exit code.
inline int run_app(int (*command)(int, char**), std::string name, std::vector<std::string> arguments) {
  std::vector<char*> argv{name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return command(static_cast<int>(arguments.size()) + 1, argv.data());
}

/// The beginning of the names of files that the job may write, the same on all ranks.
inline std::string temporary_prefix(const std::string& name) {
  const auto job = from_rank_zero(static_cast<unsigned long long>(::getpid()));
  return std::filesystem::temp_directory_path() / (name + "_" + std::to_string(job));
}

}  // namespace partita::test
