// Why collectives on GPU memory do not go by peer memory, told once each.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "core/log.hpp"
#include "core/settings.hpp"

namespace partita {

/// Any thread.
class PeerReasons {
 public:
  explicit PeerReasons(const Settings& settings) : settings_(settings) {}

  /// With PARTITA_VERBOSE. Where there is no memory for a word, the call goes on without: the others have their answer.
  void tell(const char* call, const std::string& why_not) noexcept {
    if (!settings_.verbose || why_not.empty()) return;
    try {
      {
        const std::lock_guard lock(mutex_);
        if (!told_.insert(call + (": " + why_not)).second) return;
      }
      log("{} on GPU memory goes through host memory on all ranks: {}", call, why_not);
    } catch (const std::exception&) {
      return;
    }
  }

 private:
  const Settings& settings_;
  std::mutex mutex_;
  std::set<std::string> told_;
};

}  // namespace partita
