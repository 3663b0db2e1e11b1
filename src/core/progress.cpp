#include "core/progress.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/current_error.hpp"
#include "core/log.hpp"

namespace partita {
namespace {

using std::chrono::microseconds;

constexpr microseconds longest_nap(1000);
constexpr microseconds longest_prompt_nap(20);
constexpr int lingering_naps = 50;

}  // namespace

void Progress::start_thread() {
  thread_ = std::thread([this] { thread_main(); });
  has_thread_.store(true, std::memory_order_relaxed);
}

void Progress::stop_thread() {
  if (!thread_.joinable()) return;
  has_thread_.store(false, std::memory_order_relaxed);
  stopping_.store(true, std::memory_order_release);
  doze_.wake();
  thread_.join();
}

void Progress::activate(ActiveStep& step) {
  if (active_.activate(step)) want();
}

void Progress::dismiss(ActiveStep& step) {
  if (!ActiveSteps::knows(step)) return;
  const auto lock = exclusive();
  if (active_.dismiss(step)) unwant();
}

void Progress::want() {
  if (wanted_.fetch_add(1) == 0) doze_.wake_sleeper();
}

void Progress::want_prompt() {
  if (prompt_wanted_.fetch_add(1) == 0 && spare_cores_ > 0) doze_.wake_napper();
}

void Progress::poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  take_steps();
}

bool Progress::take_steps() {
  bool moved = false;
  for (Known& step : steps_) {
    try {
      moved |= step.take();
    } catch (const std::exception&) {
      // No request to blame; whoever waits for the outcome is watched.
      tell_failure(step, current_error());
    }
  }
  const ActiveSteps::Taken taken = active_.take();
  for (int left = 0; left < taken.left; ++left) unwant();
  return moved || taken.moved;
}

/// Once, until another one comes.
void Progress::tell_failure(Known& step, const Error& error) noexcept {
  if (error.sentence() == step.last_failure) return;
  log("progress failed: {}", error.sentence());
  try {
    step.last_failure = error.sentence();
  } catch (const std::bad_alloc&) {
    step.last_failure.clear();
  }
}

/// A caller in a wait polls by itself and faster; the thread is there for ranks that are busy elsewhere.
microseconds Progress::shortest_nap() const {
  return microseconds(spare_cores_ > 0 ? 5 : 50);
}

/// Since the thread asked last, where the two run at once. Its own steps, in which a poll may be, count for nobody.
bool Progress::callers_have_polled() {
  const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
  return std::exchange(polls_seen_, polls) != polls && spare_cores_ > 0;
}

bool Progress::take_wanted_steps() {
  if (!wanted()) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const bool moved = take_steps();
  callers_have_polled();
  return moved;
}

void Progress::take_looks() {
  for (const Look& look : looks_) look();
}

/// From here on nobody counts on a look; who did before gets one.
void Progress::end_promptness() {
  if (prompt_.exchange(false)) take_looks();
}

/// Steps are taken first, as long as they take; the nap and the looks behind it are short.
void Progress::nap_promptly(std::uint32_t seen, microseconds& nap) {
  nap = std::min(nap * 2, longest_prompt_nap);
  if (wanted() && !callers_have_polled()) {
    end_promptness();
    if (take_wanted_steps()) nap = shortest_nap();
  }
  prompt_.store(true);
  doze_.nap_precisely(seen, nap);
  take_looks();
}

void Progress::thread_main() {
  microseconds nap = shortest_nap();
  int prompt_naps = 0;  // still to be taken
  for (;;) {
    const std::uint32_t seen = doze_.calls();  // before anything that a call tells of is looked at
    if (stopping_.load(std::memory_order_acquire)) break;
    if (spare_cores_ > 0 && prompt_wanted_.load() > 0) prompt_naps = lingering_naps;
    if (prompt_naps > 0) {
      --prompt_naps;
      nap_promptly(seen, nap);
      continue;
    }
    end_promptness();
    if (wanted()) {
      if (callers_have_polled()) {
        nap = std::min(nap * 2, longest_prompt_nap);
      } else {
        nap = take_wanted_steps() ? shortest_nap() : std::min(nap * 2, longest_nap);
      }
      doze_.nap(seen, nap);
    } else {
      doze_.sleep(seen);
      nap = shortest_nap();
    }
  }
  end_promptness();
}

}  // namespace partita
