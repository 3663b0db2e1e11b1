#include "bench/report.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/failure.hpp"

namespace partita::bench {

namespace {

/// In the installed tree, and in the build tree, which has a link there.
std::string script() {
  const auto place = std::filesystem::read_symlink("/proc/self/exe").parent_path() / PARTITA_REPORT_FROM_BIN;
  if (!std::filesystem::exists(place)) {
    throw Failure("{} is not there; it is installed with the program.", place.lexically_normal().string());
  }
  return place.lexically_normal().string();
}

/// Also of a process that no MPI runs in.
bool is_first_rank() {
  int running = 0;
  int rank = 0;
  check(PMPI_Initialized(&running), "MPI_Initialized");
  if (running != 0) check(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank == 0;
}

/// The exit status of `words`, of which the first one is looked up on PATH.
int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ); error != 0) {
    throw Failure("{} cannot be started: {}. Charts, summaries and comparisons need Python 3.9 or later on PATH.",
                  words[0], std::strerror(error));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Failure("{} was started, but cannot be waited for: {}.", words[0], std::strerror(errno));
  }
  if (!WIFEXITED(status)) throw Failure("{} was ended by signal {}.", words[0], WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace

int report(int argc, char** argv) {
  if (!is_first_rank()) return 0;
  try {
    // -B: no caches of bytecode, which nobody would remove, in an installed tree.
    std::vector<std::string> words{"python3", "-B", script()};
    words.insert(words.end(), argv + 1, argv + argc);
    return run(std::move(words));
  } catch (const std::exception& error) {
    fmt::print(stderr, "partita report: {}\n", error.what());
    return 1;
  }
}

}  // namespace partita::bench
