// How the epochs of a collective end that cannot be completed.
#include <algorithm>

#include "collective/collective.hpp"
#include "core/current_error.hpp"

namespace partita::collective {

void Collective::throw_if_failed() const {
  for (const auto& leg : legs_) leg->half().throw_if_failed();
  if (!empty_legs_have_met()) {
    for (const auto& leg : empty_legs_) leg->half().throw_if_failed();
  }
  if (const Leg* const leg = meeting_.differing_leg()) leg->half().throw_if_failed();
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(failure_mutex_);
  if (failure_) throw Error(*failure_);
}

void Collective::throw_if_over() const {
  throw_if_failed();
  if (!given_up()) return;
  throw Error(ErrorClass::request,
              "an earlier epoch of the request ended with an error, so that the epochs of its ranks no longer agree; "
              "free it on all ranks and make it anew. {}",
              explain());
}

bool Collective::failed() const {
  const auto has_failed = [](const auto& leg) { return leg->half().failed(); };
  return failed_.load(std::memory_order_acquire) || std::ranges::any_of(legs_, has_failed) ||
         std::ranges::any_of(empty_legs_, has_failed) || meeting_.differing_leg() != nullptr;
}

void Collective::fail(const Error& error) {
  fail_as("gave its request up", error, Mail::Caller::may_call_the_mpi);
}

/// The peers hear that this rank `what`.
void Collective::fail_as(const char* what, const Error& error, Mail::Caller caller) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
  for_each_leg([&](Leg& leg) { leg.half().fail_on_both_sides(what, error, caller); });
}

void Collective::could_not_go_on() noexcept {
  const Error error = current_error();
  try {
    fail(error);
  } catch (const std::exception&) {
    // What could be told was.
  }
}

void Collective::abandon(const std::optional<Error>& cause) {
  if (active() || device_.exists() || failed()) end_epoch(cause);
}

/// Nothing more of it moves, its kernels are released, and all peers hear why, if there is a cause. It may have begun
/// on some legs only, or not at all.
void Collective::end_epoch(const std::optional<Error>& cause) {
  const auto exclusive = services_.progress.exclusive();
  if (device_.exists()) device_.side().abort();
  given_up_.store(true, std::memory_order_release);
  services_.progress.dismiss(*this);
  if (gpu_ != nullptr) gpu_->close();
  meeting_.stop();
  for_each_leg([&](Leg& leg) { leg.give_up(cause); });
  close();
}

void Collective::withdraw() {
  services_.progress.dismiss(*this);
  if (gpu_ != nullptr) gpu_->close();
  for (const auto& leg : legs_) leg->half().withdraw();
  device_.drop();
}

void Collective::stop_lingering() {
  meeting_.stop();
  for (const auto& leg : meeting_.legs()) leg->half().withdraw();
}

}  // namespace partita::collective
