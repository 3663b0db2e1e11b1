#include "transfer/link_report.hpp"

#include "core/log.hpp"

namespace partita {

void LinkReport::matched(bool to_peer, int peer, const std::string& link, const std::string& reason) {
  if (!wanted_) return;
  {
    const std::lock_guard lock(mutex_);
    if (!told_.insert({to_peer, peer, link, reason}).second) return;
  }
  log("requests {} rank {} take link {}: {}", to_peer ? "to" : "from", peer, link, reason);
}

}  // namespace partita
