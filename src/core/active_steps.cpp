#include "core/active_steps.hpp"

namespace partita {

bool ActiveSteps::activate(ActiveStep& active) {
  // Releases what the caller has left it to do; read by the exchange before its next step, or it keeps it here.
  if (active.state_.exchange(ActiveStep::State::called, std::memory_order_acq_rel) != ActiveStep::State::away) {
    return false;
  }
  ActiveStep* newest = newest_.load(std::memory_order_relaxed);
  do {
    active.came_before_ = newest;
  } while (!newest_.compare_exchange_weak(newest, &active, std::memory_order_release, std::memory_order_relaxed));
  return true;
}

bool ActiveSteps::dismiss(ActiveStep& active) {
  if (!knows(active)) return false;
  admit();
  unlink(active);
  if (taken_ == &active) taken_ = nullptr;
  active.state_.store(ActiveStep::State::away, std::memory_order_release);
  return true;
}

ActiveSteps::Taken ActiveSteps::take() {
  Taken taken;
  if (is_taking_) return taken;
  admit();
  is_taking_ = true;
  for (to_take_ = first_; to_take_ != nullptr;) {
    ActiveStep& active = *to_take_;
    to_take_ = active.next_;
    taken_ = &active;
    if (active.state_.load(std::memory_order_relaxed) == ActiveStep::State::called) {
      active.state_.exchange(ActiveStep::State::here, std::memory_order_acq_rel);
    }
    const ActiveStep::Outcome outcome = active.step();
    taken.moved |= outcome != ActiveStep::Outcome::waiting;
    if (taken_ == nullptr) continue;  // dismissed in its step; it may have ended
    if (outcome == ActiveStep::Outcome::idle && goes(active)) ++taken.left;
  }
  taken_ = nullptr;
  is_taking_ = false;
  return taken;
}

/// Takes `active`, which has nothing left to do, out of the list, unless it was called since its step began. It may end
/// once it is away.
bool ActiveSteps::goes(ActiveStep& active) {
  unlink(active);
  ActiveStep::State here = ActiveStep::State::here;
  if (active.state_.compare_exchange_strong(here, ActiveStep::State::away, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
    return true;
  }
  link(active, to_take_);
  return false;
}

/// Those that came go to the end of the list, the oldest first.
void ActiveSteps::admit() {
  if (newest_.load(std::memory_order_relaxed) == nullptr) return;
  ActiveStep* oldest = nullptr;
  for (ActiveStep* came = newest_.exchange(nullptr, std::memory_order_acquire); came != nullptr;) {
    ActiveStep* const before = came->came_before_;
    came->came_before_ = oldest;
    oldest = came;
    came = before;
  }
  while (oldest != nullptr) {
    ActiveStep& came = *oldest;
    oldest = came.came_before_;
    link(came, nullptr);
  }
}

/// `before` is null for the end.
void ActiveSteps::link(ActiveStep& active, ActiveStep* before) {
  active.next_ = before;
  active.previous_ = before == nullptr ? last_ : before->previous_;
  (active.previous_ == nullptr ? first_ : active.previous_->next_) = &active;
  (before == nullptr ? last_ : before->previous_) = &active;
}

void ActiveSteps::unlink(ActiveStep& active) {
  if (to_take_ == &active) to_take_ = active.next_;
  (active.previous_ == nullptr ? first_ : active.previous_->next_) = active.next_;
  (active.next_ == nullptr ? last_ : active.next_->previous_) = active.previous_;
}

}  // namespace partita
