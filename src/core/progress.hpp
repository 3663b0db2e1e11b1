// Who takes the host steps of communication: setup answers, transfers that had to wait, links that need a CPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/active_steps.hpp"
#include "core/caller_polls.hpp"
#include "core/doze.hpp"
#include "core/error.hpp"

namespace partita {

/// Callers take steps inside their waits; a thread takes them while some request wants steps and no caller does, as
/// MPI's progress rule demands (MPI-4, section 2.9 and 3.5). Where a core is spare it takes none while callers do
/// all the time: the two would wait for each other. The thread sleeps while nothing is wanted.
class Progress {
 public:
  /// A step that is taken at all times, the mailbox's or a link's; returns whether something moved. Steps run one at a
  /// time, under the engine's lock.
  using Step = std::function<bool()>;
  /// What the thread looks at however long another thread's step takes: not under the engine's lock. Throws nothing.
  using Look = std::function<void()>;

  /// `spare_cores` as in World: how eagerly the thread polls.
  explicit Progress(int spare_cores) : spare_cores_(spare_cores) {}
  ~Progress() { stop_thread(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Adds a step for good. Before the thread starts.
  void add(Step step) { steps_.push_back({std::move(step), {}}); }
  /// Adds a look, which the thread takes whenever it wakes while promptness is wanted. Before the thread starts.
  void add_look(Look look) { looks_.push_back(std::move(look)); }
  void start_thread();
  void stop_thread();

  /// `step` is taken, which is a reason for steps, until it finds nothing left to do. Any thread, several at once;
  /// takes no lock and wakes the thread.
  void activate(ActiveStep& step);
  /// It is taken no more, and may end. Nobody activates it meanwhile. Blocks while another thread takes steps, if it is
  /// active.
  void dismiss(ActiveStep& step);

  /// One more, or one fewer, reason for host steps. Any thread; wakes the thread. Who finds that nothing is wanted any
  /// more sees what was done before the reasons went.
  void want();
  void unwant() { wanted_.fetch_sub(1, std::memory_order_release); }
  bool wanted() const { return wanted_.load(std::memory_order_acquire) > 0; }

  /// One more, or one fewer, reason for the thread to look soon: where a core is spare it naps for 20 us at most, and
  /// goes on so for a millisecond after the last reason went, so that epochs which follow one another wake it once.
  /// Steps are still taken only while some are wanted. Any thread; wakes the thread, but for one that naps so already.
  void want_prompt();
  void unwant_prompt() { prompt_wanted_.fetch_sub(1, std::memory_order_relaxed); }
  /// Whether the thread takes another look within one nap of 20 us and the looks' own time. False while it takes steps,
  /// which may be long. Any thread. Who stores, in the one order of all (memory_order_seq_cst), what a look loads
  /// likewise, and then finds this true, is looked at; who finds it false has to do by itself what the look would have
  /// done.
  bool prompt() const { return prompt_.load(); }

  /// Takes the steps that can be taken now, unless another thread does already. Never blocks. Any thread.
  void poll();

  /// Whether the engine has a thread, so that any thread may take steps.
  bool has_thread() const { return has_thread_.load(std::memory_order_relaxed); }
  /// Whether prompt() is ever true: there is a thread, and a core for it.
  bool can_be_prompt() const { return has_thread() && spare_cores_ > 0; }

  /// Keeps every step from running while the lock is held.
  std::unique_lock<std::recursive_mutex> exclusive() { return std::unique_lock(mutex_); }

 private:
  void thread_main();
  bool take_steps();
  std::chrono::microseconds shortest_nap() const;
  bool has_steps_to_take(std::chrono::microseconds time) const;
  bool take_steps_unless_taken();
  void nap_promptly(std::uint32_t seen, std::chrono::microseconds& nap);
  void end_promptness();
  void take_looks();

  struct Known {
    Step take;
    std::string last_failure;  ///< said already
  };
  static void tell_failure(Known& step, const Error& error) noexcept;

  int spare_cores_;
  std::vector<Known> steps_;
  ActiveSteps active_;
  std::vector<Look> looks_;
  std::recursive_mutex mutex_;
  std::atomic<int> wanted_{0};
  std::atomic<int> prompt_wanted_{0};
  std::atomic<bool> prompt_{false};
  CallerPolls caller_polls_;  ///< added to under the lock
  Doze doze_;                 ///< the thread's
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_thread_{false};
  std::thread thread_;
};

}  // namespace partita
