// How the end of a half becomes known to the other one (docs/design/matching.md, "The end of one side").
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "core/epoch.hpp"
#include "core/error.hpp"

namespace partita {

/// What a side says when it fails, gives an epoch up, or is freed.
struct LastWord {
  Epoch first_lost = no_epoch;  ///< this epoch completes no more, and none after it
  ErrorClass error_class = ErrorClass::request;
  /// The rank that ended first, the side's own most often. No cause: the half was freed. No rank: there was no
  /// memory for what the side said.
  Origin origin;
};

/// The first word of each side counts. Any thread.
class Ending {
 public:
  /// This side's.
  void say(LastWord word);
  /// What is still to be sent, once: nothing where the other side has ended itself.
  std::optional<LastWord> take_unsent();

  /// The other side's.
  void hear(LastWord word);
  /// Whether the other side has ended.
  bool heard() const { return is_heard_.load(std::memory_order_acquire); }
  /// Whether it has otherwise than by a free.
  bool has_failed() const { return heard() && !word_.origin.cause.empty(); }
  /// Whether it has ended so that `epoch` cannot complete.
  bool loses(Epoch epoch) const { return heard() && reached(epoch, word_.first_lost); }
  /// Once one of these has been true.
  const LastWord& heard_word() const { return word_; }

 private:
  std::mutex mutex_;
  std::optional<LastWord> said_;
  bool is_sent_ = false;
  std::atomic<bool> is_heard_{false};  ///< and word_ is the other side's, which stays
  LastWord word_;
};

}  // namespace partita
