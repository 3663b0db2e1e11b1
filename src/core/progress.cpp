#include "core/progress.hpp"

#include <algorithm>
#include <chrono>
#include <new>

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
  caller_polls_.add();
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

/// Behind a nap of `time`. Without a spare core a caller and the thread do not run at once.
bool Progress::has_steps_to_take(microseconds time) const {
  return wanted() && !(spare_cores_ > 0 && caller_polls_.fill(time));
}

bool Progress::take_steps_unless_taken() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && take_steps();
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
  const bool has_steps = has_steps_to_take(nap);
  nap = std::min(nap * 2, longest_prompt_nap);
  if (has_steps) {
    end_promptness();
    if (take_steps_unless_taken()) nap = shortest_nap();
  }
  prompt_.store(true);
  caller_polls_.begin_nap();
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
      const bool moved = has_steps_to_take(nap) && take_steps_unless_taken();
      nap = moved ? shortest_nap() : std::min(nap * 2, longest_nap);
      caller_polls_.begin_nap();
      doze_.nap(seen, nap);
    } else {
      doze_.sleep(seen);
      nap = shortest_nap();
      caller_polls_.begin_nap();
    }
  }
  end_promptness();
}

}  // namespace partita
