// Records of runs: JSON files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace partita::apps {

/// The first line in which the MPI says what it is.
std::string mpi_library_version();

/// The beginning of a record of the app `name`: this and the revision of the sources.
nlohmann::ordered_json record_of(const std::string& name);

/// Writes `record` to `path`. Throws std::runtime_error with a sentence if that fails.
void write_json(const nlohmann::ordered_json& record, const std::string& path);

}  // namespace partita::apps
