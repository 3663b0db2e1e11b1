// Queues of starts and waits (cpu-free-stream-triggered-mpi, section III-D).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "core/current_error.hpp"
#include "core/error.hpp"
#include "partitioned/operation.hpp"
#include "transfer/communicator.hpp"

namespace partita {

/// A queue of the host: the thread that calls is the stream, so what is enqueued has run when the call returns, and
/// nothing is ever left to be waited for. One thread at a time. Calls throw Error, and enqueue nothing then, where an
/// operation may not be enqueued; what goes wrong as it runs is kept for take_late_error().
class Queue {
 public:
  void enqueue_start(std::span<Operation* const> operations);
  /// `wait(operation)` blocks until the open epoch is over and closes it. Throws Error.
  template <class Wait>
  void enqueue_wait(std::span<Operation* const> operations, Wait wait) {
    check_waits(operations);
    for (Operation* const each : operations) {
      run(*each, [&] {
        if (each->open()) wait(*each);  // a start that failed has opened nothing
      });
      each->set_enqueued(false);
      started_.erase(each);
    }
  }

  /// What went wrong first since the last call, and whose error handler hears of it.
  struct LateError {
    Error error;
    std::shared_ptr<Communicator> communicator;
  };
  std::optional<LateError> take_late_error();

  /// Some operation that was started here and has no wait, or null.
  const Operation* unawaited() const { return started_.empty() ? nullptr : *started_.begin(); }

 private:
  /// The set of `operations`, each of which may start.
  std::unordered_set<Operation*> checked_starts(std::span<Operation* const> operations) const;
  void check_waits(std::span<Operation* const> operations) const;
  /// Runs `body`, which is about `operation`.
  template <class Body>
  void run(const Operation& operation, Body body) {
    try {
      body();
    } catch (const std::exception&) {
      if (!late_error_) late_error_ = LateError{current_error(), operation.communicator()};
    }
  }

  std::unordered_set<Operation*> started_;  ///< whose wait is still to come
  std::optional<LateError> late_error_;
};

/// The queues of the program, from Queue_init to Queue_free. Any thread.
class Queues {
 public:
  Queue& make();
  /// Throws Error where `handle` is none of them.
  Queue& find(const void* handle) const;
  void free(const Queue& queue);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Queue>> live_;
};

}  // namespace partita
