#include "two_sided/looks_in_turn.hpp"

#include <algorithm>

namespace partita {

void LooksInTurn::add(LookedAt& added) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = count_++ == 0;
    if (is_first) {
      added.previous_ = added.next_ = to_look_at_ = &added;
    } else {
      added.next_ = to_look_at_;
      added.previous_ = to_look_at_->previous_;
      added.previous_->next_ = &added;
      to_look_at_->previous_ = &added;
    }
  }
  if (is_first) progress_.activate(*this);
}

void LooksInTurn::remove(LookedAt& removed) {
  const std::lock_guard lock(mutex_);
  if (removed.next_ == nullptr) return;
  --count_;
  if (to_look_at_ == &removed) to_look_at_ = count_ == 0 ? nullptr : removed.next_;
  removed.previous_->next_ = removed.next_;
  removed.next_->previous_ = removed.previous_;
  removed.previous_ = removed.next_ = nullptr;
}

/// The next one in turn that nobody else has; null where the next one is taken, or there is none.
LookedAt* LooksInTurn::hold_next() {
  const std::lock_guard lock(mutex_);
  if (to_look_at_ == nullptr) return nullptr;
  LookedAt* const next = to_look_at_;
  to_look_at_ = next->next_;
  return next->try_to_hold() ? next : nullptr;
}

ActiveStep::Outcome LooksInTurn::step() noexcept {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = count_;
  }
  if (count == 0) return Outcome::idle;
  if (!is_needed_()) return Outcome::waiting;
  bool moved = false;
  const std::size_t looks = std::min(budget_.now(), count);
  for (std::size_t look = 0; look < looks && is_needed_(); ++look) {
    if (LookedAt* const next = hold_next()) moved |= next->look_and_let_go();
  }
  return moved ? Outcome::moved : Outcome::waiting;
}

}  // namespace partita
