#include "apps/support/record.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "apps/support/revision.hpp"

namespace partita::apps {

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all = text.data();
  return all.substr(0, all.find('\n'));
}

nlohmann::ordered_json record_of(const std::string& name) {
  return {{"app", name}, {"revision", revision()}};
}

void write_json(const nlohmann::ordered_json& record, const std::string& path) {
  std::ofstream file(path);
  file << record.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("The record {} cannot be written: {}.", path, std::strerror(errno)));
}

}  // namespace partita::apps
