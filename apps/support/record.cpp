#include "apps/support/record.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "apps/support/revision.hpp"

namespace partita::apps {

nlohmann::ordered_json record_of(const std::string& name, const Origin& origin) {
  nlohmann::ordered_json record = {{"schema", schema_version}, {"app", name}, {"revision", revision()}};
  record.update(origin_json(origin));
  return record;
}

void write_json(const nlohmann::ordered_json& record, const std::string& path) {
  std::ofstream file(path);
  file << record.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("The record {} cannot be written: {}.", path, std::strerror(errno)));
}

}  // namespace partita::apps
