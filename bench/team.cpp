#include "bench/team.hpp"

namespace partita::bench {

namespace {

constexpr int spins_before_yield = 2000;
constexpr int yields_before_sleep = 2000;

/// Waits until `word` is no longer `old`: spinning, then giving way, then asleep.
unsigned await_change(const std::atomic<unsigned>& word, unsigned old) {
  for (int i = 0; i < spins_before_yield + yields_before_sleep; ++i) {
    const unsigned seen = word.load(std::memory_order_acquire);
    if (seen != old) return seen;
    if (i >= spins_before_yield) std::this_thread::yield();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

Team::Team(int threads) {
  for (int member = 1; member < threads; ++member) workers_.emplace_back([this, member] { work(member); });
}

Team::~Team() {
  task_ = nullptr;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::fork(const std::function<void(int)>& task) {
  task_ = &task;
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void Team::join() {
  for (int i = 0; running_.load(std::memory_order_acquire) != 0; ++i) {
    if (i >= spins_before_yield) std::this_thread::yield();
  }
}

void Team::work(int member) {
  unsigned generation = 0;
  for (;;) {
    generation = await_change(generation_, generation);
    if (task_ == nullptr) return;
    (*task_)(member);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace partita::bench
