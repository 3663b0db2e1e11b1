#include "apps/support/console.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>

namespace partita::apps {
namespace {

bool is_root() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
}

}  // namespace

void say(std::string_view text) {
  if (!is_root()) return;
  fmt::print("{}", text);
  std::fflush(stdout);
}

int fail(int code, std::string_view text) {
  if (is_root()) fmt::print(stderr, "{}", text);
  return code;
}

int end(const Exit& exit) {
  if (exit.code != 0) return fail(exit.code, exit.text);
  say(exit.text);
  return 0;
}

std::string_view text_of(Check check) {
  switch (check) {
    case Check::skipped:
      return "not checked";
    case Check::passed:
      return "identical";
    case Check::failed:
      return "DIFFERENT";
  }
  return "";
}

}  // namespace partita::apps
