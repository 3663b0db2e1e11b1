// What PARTITA_VERBOSE=1 tells: once how Partita runs, and for each peer the links that its requests take.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "core/settings.hpp"
#include "core/world.hpp"

namespace partita {

/// Says nothing unless the settings ask for it. Any thread.
class LinkReport {
 public:
  explicit LinkReport(const Settings& settings) : wanted_(settings.verbose) {}

  /// The first rank tells the versions and how progress is made.
  void started(const Settings& settings, const World& world) const;

  /// A request to or from `peer` was matched: the first one over this link, in this direction, for this reason is told.
  void matched(bool to_peer, int peer, const std::string& link, const std::string& reason);

 private:
  bool wanted_;
  std::mutex mutex_;
  std::set<std::tuple<bool, int, std::string, std::string>> told_;
};

}  // namespace partita
