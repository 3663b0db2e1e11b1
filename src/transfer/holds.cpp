#include "transfer/holds.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace partita {

Holds::Holds(Progress& progress, Now now) : progress_(progress), now_(now) {
  progress.add_look([this] { look(); });
}

bool Holds::possible() const {
  return progress_.can_be_prompt();
}

void Holds::add(Holding& sender) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.reserve(senders_.size() + 1);
    senders_.push_back(&sender);
  }
  wake();
}

void Holds::remove(Holding& sender) {
  const std::lock_guard lock(mutex_);
  std::erase(senders_, &sender);
}

void Holds::wake() {
  if (looking_.exchange(true)) return;
  {
    const std::lock_guard lock(mutex_);
    last_use_ = now_();
  }
  progress_.want_prompt();
}

void Holds::look() {
  const std::lock_guard lock(mutex_);
  end_what_lasts();
  // The next to hold something wakes the looks again. Whatever is held now is looked at once more, before they end.
  if (!in_use() && looking_.exchange(false)) progress_.unwant_prompt();
}

void Holds::end_what_lasts() {
  waiting_.clear();
  for (Holding* sender : senders_) {
    if (const std::uint64_t held = sender->held(); held != 0) waiting_.push_back({sender, held});
  }
  if (waiting_.empty()) return;
  // Most find their neighbours at once; where their thread shares this core it must run for that.
  const auto end = now_() + patience;
  while (now_() < end) std::this_thread::yield();
  for (const Waiting& waiting : waiting_) waiting.sender->end_hold(waiting.held);
}

/// Whether a sender has opened an epoch lately.
bool Holds::in_use() {
  const auto now = now_();
  for (Holding* sender : senders_) {
    const std::uint32_t epochs = sender->epochs_opened();
    if (std::exchange(sender->seen_epochs_, epochs) != epochs) last_use_ = now;
  }
  return now - last_use_ < idle_after;
}

}  // namespace partita
