#include "core/continuation.hpp"

#include "core/current_error.hpp"

namespace partita {

void Continuation::arm() {
  armed_.store(true, std::memory_order_release);
  progress_.activate(*this);
}

void Continuation::cancel() {
  progress_.dismiss(*this);
  armed_.store(false, std::memory_order_release);  // it may have armed itself in the step that ended meanwhile
}

/// Whether it waits no more. It may have ended then.
bool Continuation::proceed() {
  if (!armed()) return true;
  if (!reached()) return false;
  armed_.store(false, std::memory_order_relaxed);
  go_on();
  return true;
}

ActiveStep::Outcome Continuation::step() noexcept {
  try {
    return proceed() ? Outcome::idle : Outcome::waiting;
  } catch (const Error& error) {
    armed_.store(false, std::memory_order_relaxed);
    failed(error);
  } catch (const std::exception&) {
    armed_.store(false, std::memory_order_relaxed);
    failed(current_error());  // has room for what it says
  }
  return Outcome::idle;
}

}  // namespace partita
