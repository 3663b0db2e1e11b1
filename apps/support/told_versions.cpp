#include "apps/support/told_versions.hpp"

namespace partita::apps {
namespace {

std::map<std::string, std::string>& versions() {
  static std::map<std::string, std::string> known;
  return known;
}

}  // namespace

void tell_version(const std::string& name, const std::string& version) {
  versions()[name] = version;
}

const std::map<std::string, std::string>& told_versions() {
  return versions();
}

std::string nccl_version(int number) {
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

}  // namespace partita::apps
