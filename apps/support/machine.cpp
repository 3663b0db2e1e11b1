#include "apps/support/machine.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <fstream>
#include <thread>

#include "apps/support/binding.hpp"

namespace partita::apps {

namespace {

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

std::string thread_level() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  if (level >= MPI_THREAD_MULTIPLE) return "multiple";
  if (level >= MPI_THREAD_SERIALIZED) return "serialized";
  return level >= MPI_THREAD_FUNNELED ? "funneled" : "single";
}

}  // namespace

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  return shorten_version(text.data());
}

std::string shorten_version(const std::string& text) {
  std::string version;
  for (const char letter : text.substr(0, text.find_first_of(",\n\r"))) {
    const bool blank = letter == ' ' || letter == '\t';
    if (!blank) {
      version += letter;
    } else if (!version.empty() && version.back() != ' ') {
      version += ' ';
    }
  }
  return version;
}

Machine describe_machine() {
  int version = 0;
  int subversion = 0;
  PMPI_Get_version(&version, &subversion);
  return {cpu_model(),
          static_cast<int>(std::thread::hardware_concurrency()),
          static_cast<int>(allowed_cores().size()),
          mpi_library_version(),
          fmt::format("{}.{}", version, subversion),
          thread_level(),
          {},
          0,
          {},
          {}};
}

}  // namespace partita::apps
