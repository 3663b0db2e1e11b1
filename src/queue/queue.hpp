// Queues of starts and waits (cpu-free-stream-triggered-mpi, section III-D).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/current_error.hpp"
#include "core/error.hpp"
#include "core/watch.hpp"
#include "partitioned/operation.hpp"
#include "transfer/communicator.hpp"

namespace partita {

/// What is enqueued runs in order; what runs it is the kind's (queue/kinds.hpp). One thread at a time, unless said
/// otherwise. Calls that enqueue throw Error, and enqueue nothing then, where an operation may not be enqueued; what
/// goes wrong as it runs is kept for take_late_error().
class Queue : public Waiting {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void enqueue_start(std::span<Operation* const> operations);
  void enqueue_wait(std::span<Operation* const> operations);

  /// Blocks until all that was enqueued has run. Throws Error where that takes too long.
  virtual void finish() = 0;
  /// Whether something that was enqueued may not have run: also where another thread is just at it. Any thread; does
  /// not block.
  virtual bool may_be_under_way() const = 0;
  /// The program ends: from now on look_at_stream() lets a stream go that stands for a moment.
  void begin_end() { is_ending_.store(true, std::memory_order_relaxed); }
  /// Behind begin_end() of all queues: waits a moment for what can run.
  virtual void end_soon() noexcept = 0;
  /// Behind end_soon() of all queues: what has not run never will, and no stream stands in the way of others. Takes no
  /// lock that is held while something is waited for.
  virtual void let_go() noexcept = 0;
  /// Behind let_go() of all queues: nothing uses the operations any more.
  virtual void give_up() noexcept = 0;
  /// A thread waits for GPU `device`, and calls this again and again. A stream of that GPU that stands for as long as a
  /// wait may take, while nobody takes steps, is let go. Any thread, which may hold any lock of the layers below.
  virtual void look_at_stream(int device) noexcept = 0;

  /// What went wrong first since the last call, and whose error handler hears of it.
  struct LateError {
    Error error;
    std::shared_ptr<Communicator> communicator;
  };
  std::optional<LateError> take_late_error();

  /// Some operation that was started here and has no wait, or null.
  const Operation* unawaited() const { return started_.empty() ? nullptr : started_.front(); }

 protected:
  bool is_ending() const { return is_ending_.load(std::memory_order_relaxed); }
  /// Throws Error where nothing can be enqueued now.
  virtual void prepare() {}
  /// Behind prepare(): whether device requests are made for what kernels drive, which none is while a stream is
  /// captured.
  virtual bool may_make_device_requests() const { return true; }
  /// Throws Error where nothing of this queue can run the epochs of `operation`, which stands at `place` of the array.
  virtual void check_runnable(const Operation& operation, std::size_t place) const;
  /// Throws Error where the wait for `operation`, which was started here, cannot be enqueued now.
  virtual void check_waitable(const Operation&, std::size_t) const {}
  /// Each operation may start. Where it throws, none will.
  virtual void run_starts(std::span<Operation* const> operations) = 0;
  /// Each was started here. Its wait over, one counts as enqueued no more (count_enqueued).
  virtual void run_waits(std::span<Operation* const> operations) = 0;

  /// Runs `body`, which is about `operation`, and keeps what it throws. Returns whether it threw nothing. Any thread.
  template <class Body>
  bool about(const Operation& operation, Body body) {
    try {
      body();
      return true;
    } catch (const std::exception&) {
      keep(current_error(), operation);
      return false;
    }
  }
  /// An error about `operation` has come late. Any thread.
  void keep(const Error& error, const Operation& operation);

 private:
  void check_starts(std::span<Operation* const> operations) const;
  void check_startable(const Operation& operation, std::size_t place) const;
  void check_waits(std::span<Operation* const> operations) const;
  bool has_start(const Operation& operation) const;
  void forget_start(Operation& operation);

  std::vector<Operation*> started_;  ///< whose wait is not enqueued
  std::atomic<bool> is_ending_{false};
  std::mutex late_mutex_;
  std::optional<LateError> late_error_;
};

/// The queues of the program, from Queue_init to Queue_free. Any thread.
class Queues {
 public:
  Queue& add(std::unique_ptr<Queue> queue);
  /// Throws Error where `handle` is none of them.
  Queue& find(const void* handle) const;
  void free(const Queue& queue);
  /// Whether a stream may stand at a wait that this process ends. Does not block.
  bool may_be_under_way() const;
  /// The program ends, and has not freed some. No other thread makes or frees one.
  void give_up_all() noexcept;
  /// Queue::look_at_stream() of all. Any thread.
  void look_at_streams(int device) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Queue>> live_;
};

}  // namespace partita
