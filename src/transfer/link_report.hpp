// What PARTITA_VERBOSE=1 tells of each peer: the links that transfers to and from it take.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "core/settings.hpp"

namespace partita {

/// Says nothing unless the settings ask for it. Any thread.
class LinkReport {
 public:
  explicit LinkReport(const Settings& settings) : wanted_(settings.verbose) {}

  /// A half was matched to one of `peer`'s: the first over this link, in this direction, for this reason is told.
  void matched(bool to_peer, int peer, const std::string& link, const std::string& reason);

 private:
  bool wanted_;
  std::mutex mutex_;
  std::set<std::tuple<bool, int, std::string, std::string>> told_;
};

}  // namespace partita
