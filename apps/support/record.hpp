// Records of runs: JSON files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/support/origin.hpp"

namespace partita::apps {

/// The beginning of a record of the app `name`: the version of records, the name, the revision of the sources, and the
/// fields of `origin`. bench/results.schema.json describes whole records.
nlohmann::ordered_json record_of(const std::string& name, const Origin& origin);

/// Writes `record` to `path`. Throws std::runtime_error with a sentence if that fails.
void write_json(const nlohmann::ordered_json& record, const std::string& path);

}  // namespace partita::apps
