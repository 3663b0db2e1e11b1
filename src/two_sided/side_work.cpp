#include "two_sided/side_work.hpp"

#include <utility>

namespace partita {

SideWork::~SideWork() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SideWork::add(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void SideWork::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopping_ || !jobs_.empty(); });
    if (is_stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it has kept goes here, and not under the lock
    lock.lock();
  }
}

}  // namespace partita
