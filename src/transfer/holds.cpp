#include "transfer/holds.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita {

Holds::Holds(Progress& progress) : progress_(progress) {
  progress.add_look([this] { look(); });
}

bool Holds::possible() const {
  return progress_.can_be_prompt();
}

void Holds::add(Holding& sender) {
  {
    const std::lock_guard lock(mutex_);
    if (sender.sign_.word() == nullptr) give_sign(sender);
    waiting_.reserve(senders_.size() + 1);
    senders_.push_back({&sender, sender.sign_.read().epoch()});
  }
  wake();
}

/// A free word of a line of this thread's.
void Holds::give_sign(Holding& sender) {
  const auto has_room = [](const ThreadsLine& of) {
    return of.thread == std::this_thread::get_id() && std::countr_one(of.used) < std::ssize(of.line->words);
  };
  auto found = std::ranges::find_if(lines_, has_room);
  if (found == lines_.end()) {
    found = lines_.insert(found, {std::this_thread::get_id(), std::make_unique<SignLine>(), 0});
  }
  const int free = std::countr_one(found->used);
  found->used |= 1U << free;
  HoldSign::Word& word = found->line->words[static_cast<std::size_t>(free)];
  word.store(0, std::memory_order_relaxed);
  sender.sign_ = HoldSign(word);
}

void Holds::remove(Holding& sender) {
  const std::lock_guard lock(mutex_);
  std::erase_if(senders_, [&](const Listed& listed) { return listed.sender == &sender; });
}

void Holds::forget(Holding& sender) {
  const HoldSign::Word* const word = sender.sign_.word();
  if (word == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (ThreadsLine& of : lines_) {
    for (std::size_t i = 0; i < of.line->words.size(); ++i) {
      if (&of.line->words[i] == word) of.used &= ~(1U << i);
    }
  }
}

void Holds::wake() {
  if (looking_.exchange(true)) return;
  {
    const std::lock_guard lock(mutex_);
    last_use_ = std::chrono::steady_clock::now();
  }
  progress_.want_prompt();
}

void Holds::look() {
  const std::lock_guard lock(mutex_);
  const bool in_use = find_what_waits();
  end_what_lasts();
  // The next to hold something wakes the looks again. Whatever is held now is looked at once more, before they end.
  if (!in_use && looking_.exchange(false)) progress_.unwant_prompt();
}

/// Whether a sender has opened an epoch lately.
bool Holds::find_what_waits() {
  waiting_.clear();
  bool opened = false;
  for (auto& [sender, epoch] : senders_) {
    const HoldSign::Seen seen = sender->sign_.read();
    opened |= std::exchange(epoch, seen.epoch()) != seen.epoch();
    if (!seen.may_hold() || !sender->sign_.take()) continue;
    const std::uint64_t held = sender->held();
    if (held != 0) waiting_.push_back({sender, sender->sign_.read().epoch(), held});
    sender->sign_.give_back();
  }
  const auto now = std::chrono::steady_clock::now();
  if (opened) last_use_ = now;
  return now - last_use_ < idle_after;
}

void Holds::end_what_lasts() {
  if (waiting_.empty()) return;
  // Most find their neighbours at once; where their thread shares this core it must run for that.
  const auto end = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  for (const auto& [sender, epoch, held] : waiting_) {
    // The first read, so that one whose wait is over is left alone.
    if (!sender->sign_.read().may_hold() || !sender->sign_.take()) continue;
    if (sender->sign_.read().epoch() == epoch && sender->held() == held) sender->end_hold();
    sender->sign_.give_back();
  }
}

}  // namespace partita
