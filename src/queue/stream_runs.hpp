// What a queue's stream runs by itself, without the progress engine. docs/design/queues.md, "By the stream alone".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/stream.hpp"
#include "partitioned/operation.hpp"

namespace partita {

/// One that a stream runs by itself, and is not known to have passed.
struct StreamWait {
  Operation* operation;
  std::uint32_t behind;  ///< the last place in front of it that the stream tells of
};

/// Starts and waits of operations whose facet StreamRunnable says that the stream can. One thread at a time, unless
/// said otherwise. Members throw Error.
class StreamRuns {
 public:
  explicit StreamRuns(memory::Stream& stream) : stream_(stream) {}

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
  /// Asks for the wait likewise, behind the stream's place `behind`. Whether it may throw or not, the operation counts
  /// as enqueued until pass().
  void wait(Operation& operation, std::uint32_t behind, memory::MessageRun& together);

  /// How many waits there are that take_waits() has not given. Any thread.
  std::size_t waits() const { return count_.load(std::memory_order_relaxed); }
  /// Those waits, in order.
  const std::vector<StreamWait>& waited() const { return waited_; }
  /// Gives them.
  std::vector<StreamWait> take_waits();
  /// Which of `waits`, all that a stream may stand in, in order, holds the stream, which has come to place `reached`;
  /// a sentence, or none where none does. Asks the GPU, by the program's thread.
  static std::optional<std::string> explain_held(const std::vector<StreamWait>& waits, std::uint32_t reached);

 private:
  bool can_run(const Operation& operation, bool captured) const;

  memory::Stream& stream_;
  std::vector<StreamWait> waited_;
  std::atomic<std::size_t> count_{0};  ///< of `waited_`
};

}  // namespace partita
