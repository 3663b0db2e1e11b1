// What a queue's stream runs by itself, without the progress engine. docs/design/queues.md, "By the stream alone".
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "memory/stream.hpp"
#include "partitioned/operation.hpp"

namespace partita {

/// Starts and waits of operations whose facet StreamRunnable says that the stream can. One thread at a time, unless
/// said otherwise. Members throw Error.
class StreamRuns {
 public:
  explicit StreamRuns(memory::Stream& stream) : stream_(stream) {}

  /// Why the stream cannot run the next epoch of `operation` by itself; empty where it can. `captured`: it is being
  /// captured.
  std::string why_not(const Operation& operation, bool captured) const;
  /// Throws Error unless the next epoch of `operation`, which stands at `place` of an array, can be enqueued: by the
  /// stream or, where that is not captured and the host opens the epochs, by others.
  void check_runnable(const Operation& operation, std::size_t place, bool captured) const;
  /// Throws Error where just one of start and wait would be captured.
  void check_waitable(const Operation& operation, std::size_t place, bool captured) const;

  /// Decides who runs the start of `operation`: the stream, or others. Says whether the stream does.
  bool takes_start(Operation& operation, bool captured) const;
  /// Asks the stream for a start that it takes, or adds it to `together`, which the caller launches there next. Where
  /// that throws, the wait has nothing to wait for.
  void start(Operation& operation, memory::MessageRun& together);
  /// `together` could not be launched: the wait has nothing to wait for.
  static void lose_start(Operation& operation) { operation.queue_use().newest_start().is_asked_for = false; }
  /// Whether the start of `operation`, the newest one in this queue, went to the stream; else it says so.
  static bool has_start(const Operation& operation) {
    return operation.queue_use().newest_start().by != NewestStart::By::others;
  }
  /// Asks for the wait likewise. Whether it may throw or not, the operation counts as enqueued until pass().
  void wait(Operation& operation, memory::MessageRun& together);

  /// How many waits there are that take_waits() has not given. Any thread.
  std::size_t waits() const { return count_.load(std::memory_order_relaxed); }
  /// The operations of those waits, in order.
  const std::vector<Operation*>& waited() const { return waited_; }
  /// Gives them.
  std::vector<Operation*> take_waits();

 private:
  memory::Stream& stream_;
  std::vector<Operation*> waited_;
  std::atomic<std::size_t> count_{0};  ///< of `waited_`
};

}  // namespace partita
