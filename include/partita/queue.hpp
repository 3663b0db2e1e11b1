// The C++ API: queues. <partita/partita.hpp> includes this.
#ifndef PARTITA_QUEUE_HPP
#define PARTITA_QUEUE_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/error.hpp>
#include <partita/request.hpp>

#include <utility>

namespace partita {

/// Owns a queue of starts and waits; or is null. One thread at a time.
class queue final {
 public:
  /// A queue that the calling thread runs: what is enqueued has run when the call returns.
  [[nodiscard]] static queue host() { return queue(PARTITA_QUEUE_HOST, nullptr); }
  /// A queue of a CUDA stream, which outlives it: `stream` is a cudaStream_t, by value. Calls return at once.
  [[nodiscard]] static queue cuda(void* stream) { return queue(PARTITA_QUEUE_CUDA, &stream); }
  /// It is the stream that is passed, not its address.
  template <class Stream>
  static queue cuda(Stream** stream) = delete;

  queue() noexcept = default;
  queue(queue&& other) noexcept : handle_(other.release()) {}
  queue& operator=(queue&& other) noexcept {
    if (this != &other) {
      discard();
      handle_ = other.release();
    }
    return *this;
  }
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  /// Waits and frees. What went wrong since the last wait() only the error handler hears: call free() to have it
  /// thrown. A queue in which a start has no wait cannot be freed: it neither waits nor frees, the error handler hears
  /// of it, and the queue and its use of the request stay until Partita_Finalize.
  ~queue() { discard(); }

  /// Waits, frees the queue and makes this null. Throws the first error of what has run; the queue is gone all the
  /// same. Where a start has no wait it throws (MPI_ERR_REQUEST) before it waits, and the queue stays as it is.
  void free() { check(Partita_Queue_free(&handle_)); }
  /// Blocks until everything enqueued has run. Throws the first error of what has run since the last such call.
  void wait() { check(Partita_Queue_wait(handle_)); }

  void enqueue_start(request& started) { check(Partita_Enqueue_start(handle_, one(started))); }
  /// Where one is refused none is enqueued.
  void enqueue_startall(request_span started) {
    check(Partita_Enqueue_startall(handle_, started.count(), started.handles()));
  }
  void enqueue_wait(request& awaited) { check(Partita_Enqueue_wait(handle_, one(awaited))); }
  /// Where one is refused none is enqueued.
  void enqueue_waitall(request_span awaited) {
    check(Partita_Enqueue_waitall(handle_, awaited.count(), awaited.handles()));
  }

  /// The queue for a C call. It stays this object's.
  [[nodiscard]] Partita_Queue handle() const noexcept { return handle_; }
  /// Gives the queue up to the caller, who frees it, and makes this null.
  [[nodiscard]] Partita_Queue release() noexcept { return std::exchange(handle_, PARTITA_QUEUE_NULL); }
  /// Whether this is not null.
  explicit operator bool() const noexcept { return handle_ != PARTITA_QUEUE_NULL; }

 private:
  queue(Partita_Queue_type type, void* stream) { check(Partita_Queue_init(&handle_, type, stream)); }
  static Partita_Request* one(request& only) noexcept { return request_span(&only, 1).handles(); }
  void discard() noexcept {
    if (handle_ != PARTITA_QUEUE_NULL && is_running()) Partita_Queue_free(&handle_);
    handle_ = PARTITA_QUEUE_NULL;
  }

  Partita_Queue handle_ = PARTITA_QUEUE_NULL;
};

}  // namespace partita
#endif
