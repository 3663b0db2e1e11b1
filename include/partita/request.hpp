// The C++ API: requests, one and many. <partita/partita.hpp> includes this.
#ifndef PARTITA_REQUEST_HPP
#define PARTITA_REQUEST_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/error.hpp>

#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace partita {

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

  /// What kernels ask by whether the epoch is complete, until this is freed: an ordinary message that streams move.
  [[nodiscard]] Partita_Completion completion() const {
    Partita_Completion made;
    check(Partita_Queue_completion(handle_, &made));
    return made;
  }

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

}  // namespace partita
#endif
