// What the driver may take long for, and steps of the progress engine must not wait for.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace partita {

/// One thread, which starts with the first job. Any thread.
class SideWork {
 public:
  SideWork() = default;
  /// Ends behind the job that it is at; those behind are dropped.
  ~SideWork();
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  /// Jobs run one behind the other, and throw nothing. They make no calls of the MPI's, which may allow them to one
  /// thread only. Throws std::bad_alloc and std::system_error.
  void add(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace partita
