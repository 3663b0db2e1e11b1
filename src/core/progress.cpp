#include "core/progress.hpp"

#include <algorithm>
#include <chrono>

#include "core/current_error.hpp"
#include "core/log.hpp"

namespace partita {

void Progress::start_thread() {
  thread_ = std::thread([this] { thread_main(); });
  has_thread_.store(true, std::memory_order_relaxed);
}

void Progress::stop_thread() {
  if (!thread_.joinable()) return;
  has_thread_.store(false, std::memory_order_relaxed);
  stopping_.store(true, std::memory_order_release);
  wake_ups_.fetch_add(1, std::memory_order_release);
  wake_ups_.notify_all();
  thread_.join();
}

void Progress::want() {
  if (wanted_.fetch_add(1, std::memory_order_release) > 0 || !thread_.joinable()) return;
  wake_ups_.fetch_add(1, std::memory_order_release);
  wake_ups_.notify_all();
}

void Progress::poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) take_steps();
}

bool Progress::take_steps() {
  bool moved = false;
  for (Known& step : steps_) {
    try {
      moved |= step.take();
    } catch (const std::exception&) {
      const Error error = current_error();
      // No request to blame; whoever waits for the outcome is watched.
      if (error.sentence() != step.last_failure) log("progress failed: {}", error.sentence());
      step.last_failure = error.sentence();
    }
  }
  return moved;
}

void Progress::thread_main() {
  using std::chrono::microseconds;
  // A caller in a wait polls by itself and faster; this thread is there for ranks that are busy elsewhere.
  const microseconds shortest(spare_cores_ > 0 ? 5 : 50);
  const microseconds longest(1000);
  microseconds nap = shortest;
  while (!stopping_.load(std::memory_order_acquire)) {
    const unsigned seen = wake_ups_.load(std::memory_order_acquire);
    if (wanted_.load(std::memory_order_acquire) <= 0) {
      wake_ups_.wait(seen, std::memory_order_acquire);
      nap = shortest;
      continue;
    }
    bool moved = false;
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock()) moved = take_steps();
    }
    nap = moved ? shortest : std::min(nap * 2, longest);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace partita
