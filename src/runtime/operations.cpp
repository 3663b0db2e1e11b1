#include "runtime/operations.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"
#include "runtime/kept_while_looked_at.hpp"

namespace partita {
namespace {

/// Whether nothing of `operation` is left to be waited for; otherwise says in `why` what is.
bool is_complete(Operation& operation, std::string& why) {
  if (!operation.open()) return true;
  try {
    if (operation.done()) return true;
    why = operation.explain();
  } catch (...) {
    why = current_error().sentence();
  }
  return false;
}

}  // namespace

void Operations::add(std::unique_ptr<Operation> operation) {
  Operation& added = *operation;
  {
    const std::lock_guard lock(mutex_);
    live_.emplace(&added, Owned{std::move(operation), made_++});
  }
  try {
    added.seek_peers();
  } catch (...) {
    free(added);  // peers may know of some of its halves
    throw;
  }
}

std::shared_ptr<Operation> Operations::take(Operation& operation) {
  const std::lock_guard lock(mutex_);
  return std::move(live_.extract(&operation).mapped().operation);
}

void Operations::free(Operation& operation) {
  operation.withdraw();
  const std::vector<Half*> halves = insist([&] { return operation.halves(); });
  const std::shared_ptr<Operation> freed = take(operation);
  KeptWhileLookedAt::keep(freed);
  free_halves(freed, halves);
  if (!freed->lingers()) return stop_lingering(freed);
  const auto exclusive = progress_.exclusive();
  insist([&] { lingering_.push_back(freed); });
  progress_.want();
}

void Operations::free_halves(const std::shared_ptr<Operation>& freed, const std::vector<Half*>& halves) {
  for (Half* half : halves) {
    const bool was_added = half->id != 0;
    if (was_added) matcher_.free(std::shared_ptr<Half>(freed, half));
  }
}

void Operations::stop_lingering(const std::shared_ptr<Operation>& freed) {
  freed->stop_lingering();
  free_halves(freed, insist([&] { return freed->lingering_halves(); }));
}

/// A few in turns. A look may call the program's error handler, which may free others.
bool Operations::free_what_lingered() {
  if (lingering_.empty()) return false;
  const std::size_t looks = std::min(looks_.now(), lingering_.size());
  for (std::size_t look = 0; look < looks && !lingering_.empty(); ++look) {
    next_look_ = (next_look_ + 1) % lingering_.size();
    const std::shared_ptr<Operation> looked_at = lingering_[next_look_];
    if (looked_at->lingers()) continue;
    const auto freed = std::ranges::find(lingering_, looked_at);
    if (freed == lingering_.end()) return false;
    std::swap(*freed, lingering_.back());
    lingering_.pop_back();
    progress_.unwant();
    stop_lingering(looked_at);
    return true;
  }
  return false;
}

/// What the MPI has in its hands gets a moment more.
void Operations::end_lingering() {
  const auto exclusive = progress_.exclusive();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!lingering_.empty() && std::chrono::steady_clock::now() < end) {
    progress_.poll();
    std::this_thread::yield();
  }
  for (const std::shared_ptr<Operation>& freed : std::exchange(lingering_, {})) {
    progress_.unwant();
    stop_lingering(freed);
  }
}

const Operation& Operations::operation_with(const Partita_Prequest& view) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, owned] : live_) {
    KernelUsable* const usable = owned.operation->facets().kernel_usable;
    if (usable != nullptr && usable->has_device_request(view)) return *owned.operation;
  }
  throw Error(ErrorClass::arg, "argument prequest is of no request; it was freed already, or never made");
}

std::vector<Operation*> Operations::in_order() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Owned*> owned;
  owned.reserve(live_.size());
  for (const auto& [address, each] : live_) owned.push_back(&each);
  std::ranges::sort(owned, {}, &Owned::place);
  std::vector<Operation*> live;
  live.reserve(owned.size());
  for (const Owned* each : owned) live.push_back(each->operation.get());
  return live;
}

/// The last looks, with steps that this thread takes itself: it may have been without a core until now, or another
/// thread without one while it took steps.
bool Operations::is_complete_after_steps(Operation& operation, std::string& why) {
  const auto exclusive = progress_.exclusive();
  constexpr int steps = 4;  // an MPI may need several to show what has come
  for (int step = 0; step < steps; ++step) {
    progress_.poll();
    if (is_complete(operation, why)) return true;
  }
  return false;
}

Operations::Leftovers Operations::free_all() {
  Leftovers found;
  const std::vector<Operation*> live = in_order();
  found.live = live.size();
  // What was marked may be on its way still, over a link that moves only while somebody looks.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  for (Operation* operation : live) {
    std::string why;
    bool complete = is_complete(*operation, why);
    while (!complete && std::chrono::steady_clock::now() < give_up) {
      progress_.poll();
      complete = is_complete(*operation, why);
    }
    if (!complete) complete = is_complete_after_steps(*operation, why);
    if (!complete && found.incomplete++ == 0) found.explanation = why;
  }
  const auto exclusive = progress_.exclusive();
  for (Operation* operation : live) operation->abandon({});  // one may know of others
  for (Operation* operation : live) free(*operation);
  return found;
}

}  // namespace partita
