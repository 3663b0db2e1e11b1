// Persistent requests of the MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/counted_type.hpp"
#include "core/mpi_check.hpp"

namespace partita::link::mpi {

/// Calls `call`. The MPI's text does not say with whom a transfer failed: an Error names world rank `peer`.
template <class Call>
void naming_peer(int peer, Call call) {
  try {
    call();
  } catch (const Error& error) {
    throw Error(error.error_class(), "the transfer with rank {} failed: {}", peer, error.sentence());
  }
}

/// Several, started and tested each by itself or all together. Different ones by several threads at once.
class PersistentRequests {
 public:
  /// `peer`: the world rank at the other end, for errors.
  explicit PersistentRequests(int peer) : peer_(peer) {}
  ~PersistentRequests() {
    for (MPI_Request& request : requests_) native::Request_free(&request);
  }
  PersistentRequests(const PersistentRequests&) = delete;
  PersistentRequests& operator=(const PersistentRequests&) = delete;

  /// One more, over `size_bytes`: `init(count, type, request)` makes it.
  template <class Init>
  void add(std::int64_t size_bytes, Init init) {
    const CountedType span(size_bytes);
    requests_.reserve(requests_.size() + 1);
    MPI_Request request = MPI_REQUEST_NULL;
    init(span.count(), span.type(), &request);
    requests_.push_back(request);
  }

  void start(std::int64_t index) {
    naming_peer(peer_, [&] { PARTITA_MPI(Start(&requests_[static_cast<std::size_t>(index)])); });
  }
  /// Where it throws, some may have been started: the next call starts the rest.
  void start_all() {
    for (; started_ < size(); ++started_) start(started_);
    started_ = 0;
  }

  bool test(std::int64_t index, MPI_Status* status) {
    int done = 0;
    naming_peer(peer_, [&] { PARTITA_MPI(Test(&requests_[static_cast<std::size_t>(index)], &done, status)); });
    return done != 0;
  }
  /// One look at two that were started: the one that is done, or nothing.
  enum class Done { neither, first, second };
  static Done test_either(PersistentRequests& first, std::int64_t index, PersistentRequests& second,
                          std::int64_t second_index, MPI_Status* status) {
    // The handle of a persistent request stays as it is when that is done.
    MPI_Request both[] = {first.requests_[static_cast<std::size_t>(index)],
                          second.requests_[static_cast<std::size_t>(second_index)]};
    int which = MPI_UNDEFINED;
    int done = 0;
    naming_peer(first.peer_, [&] { PARTITA_MPI(Testany(2, both, &which, &done, status)); });
    if (done == 0 || which == MPI_UNDEFINED) return Done::neither;
    return which == 0 ? Done::first : Done::second;
  }
  bool test_all() {
    if (requests_.size() == 1) return test(0, MPI_STATUS_IGNORE);
    int done = 0;
    naming_peer(peer_, [&] { PARTITA_MPI(Testall(size(), requests_.data(), &done, MPI_STATUSES_IGNORE)); });
    return done != 0;
  }

  /// Ends a receive that was started: nothing is written by it any more. Local.
  void cancel(std::int64_t index) noexcept {
    MPI_Request* const request = &requests_[static_cast<std::size_t>(index)];
    if (native::Cancel(request) == MPI_SUCCESS) native::Wait(request, MPI_STATUS_IGNORE);
  }

 private:
  int size() const { return static_cast<int>(requests_.size()); }

  int peer_;
  std::vector<MPI_Request> requests_;
  int started_ = 0;  ///< by a start_all() that has thrown
};

}  // namespace partita::link::mpi
