// What queues have of an operation: the starts of it that are enqueued, and who waits for its match.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace partita {

class QueueUse;

/// Where marks of the host are kept that come before a queue has run the start of their epoch.
class EarlyMarks {
 public:
  /// Keeps the marks of [first, last] for the start, of the operation that has `use`, that was enqueued last. False
  /// where that has run meanwhile: then they are the operation's. Any thread.
  virtual bool keep(const QueueUse& use, std::int64_t first, std::int64_t last) = 0;

 protected:
  ~EarlyMarks() = default;
};

/// The newest start of an operation that was enqueued, as the queue keeps it.
struct NewestStart {
  const void* queue = nullptr;
  bool has_wait = false;   ///< which is enqueued, too
  std::size_t place = 0;   ///< while it has none: in the queue's list of such
  std::uint64_t call = 0;  ///< the number of the call that looked at it last
  /// Who runs it: the progress engine or the host; or the stream itself, whether the start could be asked for or not.
  enum class By { others, stream, graph } by = By::others;
  bool is_asked_for = false;
};

/// Each operation has one.
class QueueUse {
 public:
  QueueUse() = default;
  QueueUse(const QueueUse&) = delete;
  QueueUse& operator=(const QueueUse&) = delete;

  /// Whether a queue has a start of it whose wait is not over: then the host neither starts nor completes nor frees it.
  /// Any thread: who finds it over has seen all that the queue has done with it.
  bool enqueued() const { return enqueued_.load(std::memory_order_acquire) > 0; }
  void count_enqueued(int change) { enqueued_.fetch_add(change, std::memory_order_acq_rel); }
  NewestStart& newest_start() { return newest_start_; }
  const NewestStart& newest_start() const { return newest_start_; }
  /// Returns null unless starts of it are enqueued that have not run. Any thread: who finds null has seen the last of
  /// them.
  EarlyMarks* early_marks() const { return early_marks_.load(std::memory_order_acquire); }
  /// These two count such starts, under the lock of the queue that keeps the marks.
  void add_start_ahead(EarlyMarks& marks) {
    ++starts_ahead_;
    early_marks_.store(&marks, std::memory_order_release);
  }
  void start_has_run() {
    if (--starts_ahead_ == 0) early_marks_.store(nullptr, std::memory_order_release);
  }
  /// So many matching requests wait for it: it is not freed meanwhile. Any thread: each of them may be completed by
  /// another one. Whoever frees it after the last has seen all that those threads have done with it.
  int awaited() const { return awaited_.load(std::memory_order_acquire); }
  void count_awaited(int change) { awaited_.fetch_add(change, std::memory_order_acq_rel); }

 private:
  std::atomic<EarlyMarks*> early_marks_{nullptr};
  std::atomic<int> enqueued_{0};  ///< starts whose waits are not over
  NewestStart newest_start_;
  int starts_ahead_ = 0;
  std::atomic<int> awaited_{0};
};

}  // namespace partita
