#include "transfer/ending.hpp"

#include <utility>

namespace partita {

void Ending::say(LastWord word) {
  const std::lock_guard lock(mutex_);
  if (!said_) said_ = std::move(word);
}

std::optional<LastWord> Ending::take_unsent() {
  const std::lock_guard lock(mutex_);
  if (!said_ || heard() || is_sent_) return {};
  std::optional<LastWord> word = said_;
  is_sent_ = true;  // where there is no memory for a copy, the next call sends it
  return word;
}

void Ending::hear(LastWord word) {
  const std::lock_guard lock(mutex_);
  if (heard()) return;
  word_ = std::move(word);
  is_heard_.store(true, std::memory_order_release);
}

}  // namespace partita
