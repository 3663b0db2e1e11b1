#include "runtime/start_report.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "partita/partita.h"

namespace partita {
namespace {

/// Some MPIs say more in the lines that follow.
std::string name_of_mpi() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  PARTITA_MPI(Get_library_version(text, &length));
  const std::string_view all(text, static_cast<std::size_t>(length));
  std::string line(all.substr(0, all.find('\n')));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

}  // namespace

void report_start(const Settings& settings, const World& world) {
  if (!settings.verbose || world.rank() != 0) return;
  const bool thread = settings.progress_thread && world.thread_level() == MPI_THREAD_MULTIPLE;
  log("Partita {}.{}.{} on {}; {} ranks, {} of them on this node; progress by {}", PARTITA_VERSION_MAJOR,
      PARTITA_VERSION_MINOR, PARTITA_VERSION_PATCH, name_of_mpi(), world.size(), world.node().size(),
      thread ? "a thread" : "the program's calls");
}

}  // namespace partita
