#include "two_sided/posted_receives.hpp"

#include <algorithm>

namespace partita {
namespace {

/// A rank that waits takes its next step at once, and the engine's thread sleeps for up to a millisecond: the thread
/// asks for more at a time, and neither spends much of its time on it.
constexpr std::size_t least_looks = 2;
constexpr std::size_t most_looks = 100;
constexpr std::chrono::microseconds time_between_looks(10);

}  // namespace

void PostedReceives::add(PostedReceive& receive) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = count_++ == 0;
    if (is_first) {
      receive.previous_ = receive.next_ = to_look_at_ = &receive;
    } else {
      receive.next_ = to_look_at_;
      receive.previous_ = to_look_at_->previous_;
      receive.previous_->next_ = &receive;
      to_look_at_->previous_ = &receive;
    }
  }
  if (is_first) progress_.activate(*this);
}

void PostedReceives::remove(PostedReceive& receive) {
  const std::lock_guard lock(mutex_);
  if (receive.next_ == nullptr) return;
  --count_;
  if (to_look_at_ == &receive) to_look_at_ = count_ == 0 ? nullptr : receive.next_;
  receive.previous_->next_ = receive.next_;
  receive.next_->previous_ = receive.previous_;
  receive.previous_ = receive.next_ = nullptr;
}

std::size_t PostedReceives::looks_now() {
  const Clock::time_point now = Clock::now();
  const auto by_time = static_cast<std::size_t>((now - last_looks_) / time_between_looks);
  last_looks_ = now;
  return std::clamp(by_time, least_looks, most_looks);
}

/// The next one in turn that nobody else has; null where the next one is taken, or there is none.
PostedReceive* PostedReceives::hold_next() {
  const std::lock_guard lock(mutex_);
  if (to_look_at_ == nullptr) return nullptr;
  PostedReceive* const next = to_look_at_;
  to_look_at_ = next->next_;
  return next->try_to_hold() ? next : nullptr;
}

ActiveStep::Outcome PostedReceives::step() noexcept {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = count_;
  }
  if (count == 0) return Outcome::idle;
  if (!unmet_.any()) return Outcome::waiting;
  bool moved = false;
  const std::size_t looks = std::min(looks_now(), count);
  for (std::size_t look = 0; look < looks && unmet_.any(); ++look) {
    if (PostedReceive* const next = hold_next()) moved |= next->look_and_let_go();
  }
  return moved ? Outcome::moved : Outcome::waiting;
}

}  // namespace partita
