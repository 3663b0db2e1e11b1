// Partita: the C++ API. C++17, headers only, over partita/partita.h, whose pages in docs/api/ hold for each call.
//
// Requests and queues own what they stand for, and an error is an exception. A call costs what the C call costs. Errors
// are thrown where the error handler of the communicator concerned returns (communicator::throw_errors); MPI's default
// handler ends the job before. What has no name here is called by its C name, on handle().
#ifndef PARTITA_PARTITA_HPP
#define PARTITA_PARTITA_HPP

#include <mpi.h>
#include <partita/partita.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace partita {

// ---- Errors ----------------------------------------------------------------------------------------------------

/// What went wrong in a call: what() is the sentence that Partita_Error_string gives.
class PARTITA_EXPORT error final : public std::runtime_error {
 public:
  /// The error behind `code`, which a call has returned on this thread, or put into a status.
  explicit error(int code) : std::runtime_error(sentence_of(code)), code_(code), error_class_(class_of(code)) {}

  [[nodiscard]] int code() const noexcept { return code_; }
  /// One of MPI's predefined classes, such as MPI_ERR_RANK.
  [[nodiscard]] int error_class() const noexcept { return error_class_; }

 private:
  static std::string sentence_of(int code) {
    char sentence[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    Partita_Error_string(code, sentence, &length);
    return sentence;
  }
  static int class_of(int code) {
    int error_class = MPI_ERR_UNKNOWN;
    MPI_Error_class(code, &error_class);
    return error_class;
  }

  int code_;
  int error_class_;
};

/// Throws error unless `code`, which a call has returned on this thread, is MPI_SUCCESS.
inline void check(int code) {
  if (code != MPI_SUCCESS) throw error(code);
}

/// Whether the runtime runs: handles end with it.
[[nodiscard]] inline bool is_running() noexcept {
  int running = 0;
  return Partita_Initialized(&running) == MPI_SUCCESS && running != 0;
}

// ---- Requests --------------------------------------------------------------------------------------------------

/// Owns a persistent request of any kind, or the request of an imatch; or is null. Made by a communicator, or from what
/// a C call has made. Holds neither its buffer nor its communicator. Threads as in C.
class request final {
 public:
  request() noexcept = default;
  /// Takes `handle` over, as from Partita_Pallreduce_init.
  explicit request(Partita_Request handle) noexcept : handle_(handle) {}
  request(request&& other) noexcept : handle_(other.release()) {}
  request& operator=(request&& other) noexcept {
    if (this != &other) {
      discard();
      handle_ = other.release();
    }
    return *this;
  }
  request(const request&) = delete;
  request& operator=(const request&) = delete;
  /// Frees the request. One that is active or enqueued cannot be freed: the error handler hears of it, nobody else, and
  /// the request and its use of the buffer stay until Partita_Finalize. Nothing happens once the runtime has ended.
  ~request() { discard(); }

  /// Frees the request and makes this null.
  void free() { check(Partita_Request_free(&handle_)); }

  void start() { check(Partita_Start(&handle_)); }
  void wait(MPI_Status* status = MPI_STATUS_IGNORE) { check(Partita_Wait(&handle_, status)); }
  [[nodiscard]] bool test(MPI_Status* status = MPI_STATUS_IGNORE) {
    int flag = 0;
    check(Partita_Test(&handle_, &flag, status));
    return flag != 0;
  }

  void match() { check(Partita_Match(&handle_)); }
  /// Matches without blocking: the result is complete once this is matched, and null then.
  [[nodiscard]] request imatch() {
    request matching;
    check(Partita_Imatch(&handle_, &matching.handle_));
    return matching;
  }
  [[nodiscard]] bool is_matched() const {
    int flag = 0;
    check(Partita_Is_matched(handle_, &flag));
    return flag != 0;
  }

  void pready(int partition) const { check(Partita_Pready(partition, handle_)); }
  /// Marks `first` to `last`, both included.
  void pready_range(int first, int last) const { check(Partita_Pready_range(first, last, handle_)); }
  void pready_list(int length, const int* partitions) const { check(Partita_Pready_list(length, partitions, handle_)); }
  [[nodiscard]] bool parrived(int partition) const {
    int flag = 0;
    check(Partita_Parrived(handle_, partition, &flag));
    return flag != 0;
  }
  void pbuf_prepare() const { check(Partita_Pbuf_prepare(handle_)); }

  /// The request for a C call. It stays this object's.
  [[nodiscard]] Partita_Request handle() const noexcept { return handle_; }
  /// Gives the request up to the caller, who frees it, and makes this null.
  [[nodiscard]] Partita_Request release() noexcept { return std::exchange(handle_, PARTITA_REQUEST_NULL); }
  /// Whether this is not null.
  explicit operator bool() const noexcept { return handle_ != PARTITA_REQUEST_NULL; }

 private:
  void discard() noexcept {
    if (handle_ != PARTITA_REQUEST_NULL && is_running()) Partita_Request_free(&handle_);
    handle_ = PARTITA_REQUEST_NULL;
  }

  Partita_Request handle_ = PARTITA_REQUEST_NULL;
};

// So an array of requests is what the C calls take.
static_assert(sizeof(request) == sizeof(Partita_Request) && alignof(request) == alignof(Partita_Request));
static_assert(std::is_standard_layout_v<request>);

/// A view of requests that lie one behind the other: of a vector, an array, a std::span. For the length of a call.
class request_span final {
 public:
  request_span(request* first, std::size_t size) noexcept : first_(first), size_(size) {}
  template <class Requests,
            class = std::enable_if_t<std::is_convertible_v<decltype(std::data(std::declval<Requests&>())), request*>>>
  request_span(Requests&& requests) : request_span(std::data(requests), std::size(requests)) {}

  /// For C calls on arrays. By the letter of C++ it is undefined to walk an array of requests as one of their handles;
  /// it is relied upon all the same, since by the assertions above they lie in memory alike.
  [[nodiscard]] Partita_Request* handles() const noexcept { return reinterpret_cast<Partita_Request*>(first_); }
  /// Throws error (MPI_ERR_COUNT) where the C calls cannot count so far.
  [[nodiscard]] int count() const {
    if (size_ > static_cast<std::size_t>(std::numeric_limits<int>::max())) throw error(MPI_ERR_COUNT);
    return static_cast<int>(size_);
  }

 private:
  request* first_;
  std::size_t size_;
};

inline void startall(request_span requests) {
  check(Partita_Startall(requests.count(), requests.handles()));
}

namespace detail {

/// Makes `call`, which completes `count` requests, with the caller's `statuses` or, where it wants none, with own ones:
/// only they tell what has failed. Those of up to 16 requests take no allocation.
template <class Call>
void complete_all(int count, MPI_Status* statuses, Call call) {
  if (statuses != MPI_STATUSES_IGNORE) return check(call(statuses));
  constexpr int few = 16;
  MPI_Status own_few[few];
  std::vector<MPI_Status> own_many(count > few ? static_cast<std::size_t>(count) : 0);
  MPI_Status* const own = count > few ? own_many.data() : own_few;
  const int code = call(own);
  for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; ++i) {
    if (own[i].MPI_ERROR != MPI_ERR_PENDING) check(own[i].MPI_ERROR);
  }
  check(code);
}

}  // namespace detail

/// Waits for all. Where some fail it throws, without `statuses`, the error of the first of them; with `statuses`, an
/// error of class MPI_ERR_IN_STATUS, and error(statuses[i].MPI_ERROR) is that of one. As a thread keeps one sentence
/// for each class, of several that fail with the same class each has the sentence of the last.
inline void waitall(request_span requests, MPI_Status* statuses = MPI_STATUSES_IGNORE) {
  detail::complete_all(requests.count(), statuses, [&](MPI_Status* filled) {
    return Partita_Waitall(requests.count(), requests.handles(), filled);
  });
}
/// Whether all are complete. Else none is completed. Throws as waitall does.
[[nodiscard]] inline bool testall(request_span requests, MPI_Status* statuses = MPI_STATUSES_IGNORE) {
  int flag = 0;
  detail::complete_all(requests.count(), statuses, [&](MPI_Status* filled) {
    return Partita_Testall(requests.count(), requests.handles(), &flag, filled);
  });
  return flag != 0;
}
/// Matches all together.
inline void matchall(request_span requests) {
  check(Partita_Matchall(requests.count(), requests.handles()));
}
/// Matches all without blocking: the result is complete once all are matched, and null then.
[[nodiscard]] inline request imatchall(request_span requests) {
  Partita_Request matching = PARTITA_REQUEST_NULL;
  check(Partita_Imatchall(requests.count(), requests.handles(), &matching));
  return request(matching);
}
inline void pbuf_prepareall(request_span requests) {
  check(Partita_Pbuf_prepareall(requests.count(), requests.handles()));
}

// ---- Communicators ---------------------------------------------------------------------------------------------

/// A communicator of the program's, by value. Owns nothing.
class communicator final {
 public:
  explicit communicator(MPI_Comm handle) noexcept : handle_(handle) {}

  [[nodiscard]] MPI_Comm handle() const noexcept { return handle_; }
  [[nodiscard]] int rank() const {
    int rank = 0;
    check(MPI_Comm_rank(handle_, &rank));
    return rank;
  }
  [[nodiscard]] int size() const {
    int size = 0;
    check(MPI_Comm_size(handle_, &size));
    return size;
  }

  /// From now on errors on this communicator, those of MPI calls too, come back as codes; so the calls here throw them.
  /// Errors that concern no communicator are MPI_COMM_SELF's.
  void throw_errors() const { check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN)); }
  /// Makes a communicator known that is neither MPI_COMM_WORLD nor MPI_COMM_SELF nor the runtime's. Collective.
  void make_known() const { check(Partita_Comm_register(handle_)); }

  [[nodiscard]] request send_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Send_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request rsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Rsend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request ssend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Ssend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  /// Of a buffer in host memory.
  [[nodiscard]] request bsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Bsend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request recv_init(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Recv_init(buf, count, datatype, source, tag, handle_, r); });
  }
  /// `count` elements a partition.
  [[nodiscard]] request psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                                   int tag, MPI_Info info = MPI_INFO_NULL) const {
    return made([&](Partita_Request* r) {
      return Partita_Psend_init(buf, partitions, count, datatype, dest, tag, handle_, info, r);
    });
  }
  [[nodiscard]] request precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                                   int tag, MPI_Info info = MPI_INFO_NULL) const {
    return made([&](Partita_Request* r) {
      return Partita_Precv_init(buf, partitions, count, datatype, source, tag, handle_, info, r);
    });
  }

 private:
  template <class Init>
  static request made(Init init) {
    Partita_Request handle = PARTITA_REQUEST_NULL;
    check(init(&handle));
    return request(handle);
  }

  MPI_Comm handle_;
};

// ---- Queues ----------------------------------------------------------------------------------------------------

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

// ---- Runtime ---------------------------------------------------------------------------------------------------

/// Partita_Init, and Partita_Finalize at its end: make it after MPI_Init and before any request or queue, so that these
/// are gone before. Both are collective, so the end of this blocks until all ranks have come to theirs. An exception
/// that one rank has alone is therefore caught before it leaves this object's block, and the job ended there
/// (MPI_Abort). Where the runtime runs already, by the drop-in or by an outer object, this neither starts nor ends it.
class runtime final {
 public:
  explicit runtime(MPI_Comm world = MPI_COMM_WORLD) : owns_(!is_running()) { check(Partita_Init(world)); }
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// Of an error only the error handler hears: call finalize() to have it thrown.
  ~runtime() {
    if (owns_ && is_running()) Partita_Finalize();
  }

  /// Ends the runtime now, if this has started it.
  void finalize() {
    if (std::exchange(owns_, false)) check(Partita_Finalize());
  }

 private:
  bool owns_;
};

}  // namespace partita
#endif
