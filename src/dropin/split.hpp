// An array of requests as the caller gave it, Partita's and the MPI's apart.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>

#include "core/scratch.hpp"
#include "dropin/native.hpp"
#include "dropin/requests.hpp"

namespace partita::dropin {

using partita::Scratch;

/// The requests of one kind, close together, each with its place in the caller's array.
template <class Request>
struct Part {
  Request* requests = nullptr;
  int* places = nullptr;
  int count = 0;

  void add(Request request, int place) {
    requests[count] = request;
    places[count] = place;
    ++count;
  }

  /// Takes out the requests whose place was set to -1. What lies behind the others then is `null`: a wait that has
  /// begun with more of them looks there, too, and a request of which a copy were left may be freed meanwhile.
  void remove_without_place(Request null) {
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      if (places[i] < 0) continue;
      requests[kept] = requests[i];
      places[kept] = places[i];
      ++kept;
    }
    std::fill(requests + kept, requests + count, null);
    count = kept;
  }
};

/// Null requests are in neither part. `scratch` must have room for need(count) and outlive this.
class Split {
 public:
  static constexpr std::size_t need(int count) {
    const auto n = static_cast<std::size_t>(count);
    return Scratch::need<Partita_Request>(n) + Scratch::need<MPI_Request>(n) + 2 * Scratch::need<int>(n);
  }

  Split(int count, MPI_Request* requests, Scratch& scratch) : requests_(requests) {
    const auto n = static_cast<std::size_t>(count);
    own = {scratch.take<Partita_Request>(n), scratch.take<int>(n), 0};
    foreign = {scratch.take<MPI_Request>(n), scratch.take<int>(n), 0};
    for (int i = 0; i < count; ++i) {
      if (requests[i] == MPI_REQUEST_NULL) continue;
      if (const Partita_Request found = ours(requests[i]); found != PARTITA_REQUEST_NULL) {
        own.add(found, i);
      } else {
        foreign.add(requests[i], i);
      }
    }
  }

  /// Gives the caller the handles back, of which a completed one has become null.
  void put_back() const {
    for (int i = 0; i < foreign.count; ++i) put_back(foreign, i);
    for (int i = 0; i < own.count; ++i) put_back(own, i);
  }
  void put_back(const Part<MPI_Request>& part, int i) const {
    MPI_Request& handle = requests_[part.places[i]];
    if (handle != MPI_REQUEST_NULL) handle = part.requests[i];
  }
  /// The caller's handle of a request of ours changes only where the call that completed it has freed it. It is null
  /// already where an error handler has done so.
  void put_back(const Part<Partita_Request>& part, int i) const {
    MPI_Request& handle = requests_[part.places[i]];
    if (part.requests[i] == PARTITA_REQUEST_NULL && handle != MPI_REQUEST_NULL) forget(&handle);
  }

  /// Comes between two looks. An error handler may have completed some requests since: they are null in the caller's
  /// array, and from here on in the parts.
  void drop_gone() const {
    for (int i = 0; i < own.count; ++i) drop_if_gone(own, i, PARTITA_REQUEST_NULL);
    for (int i = 0; i < foreign.count; ++i) drop_if_gone(foreign, i, MPI_REQUEST_NULL);
  }
  template <class Request>
  void drop_if_gone(const Part<Request>& part, int i, Request null) const {
    if (requests_[part.places[i]] == MPI_REQUEST_NULL) part.requests[i] = null;
  }

  Part<Partita_Request> own;
  Part<MPI_Request> foreign;

 private:
  MPI_Request* requests_;
};

/// What a call on an array returns: after an error, requests that have failed for good go.
inline int ended(int code, int count, MPI_Request requests[]) {
  for (int i = 0; code != MPI_SUCCESS && i < count; ++i) end_if_spent(&requests[i]);
  return code;
}

/// Whether `code` says that the statuses hold the errors.
inline bool is_in_status(int code) {
  int error_class = MPI_SUCCESS;
  return code != MPI_SUCCESS && native().Error_class(code, &error_class) == MPI_SUCCESS &&
         error_class == MPI_ERR_IN_STATUS;
}

/// Whether a status is neither given nor ignored, which is an error: MPI_STATUS_IGNORE is null in some MPIs only.
inline bool is_missing(const MPI_Status* status) {
  return status == nullptr && status != MPI_STATUS_IGNORE;
}
inline bool are_missing(const MPI_Status statuses[]) {
  return statuses == nullptr && statuses != MPI_STATUSES_IGNORE;
}

/// Where entry `i` of an array of statuses, or of MPI_STATUSES_IGNORE, is written.
inline MPI_Status* status_at(MPI_Status* statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/// Gives the caller of a call that completes one request its status. The error field keeps its value: only calls on
/// arrays set it.
inline void give_status(MPI_Status* to, const MPI_Status& from) {
  if (to == MPI_STATUS_IGNORE) return;
  const int error = to->MPI_ERROR;
  *to = from;
  to->MPI_ERROR = error;
}

/// The calls of both kinds under one name.
namespace either {

inline Partita_Request null_of(const Part<Partita_Request>&) {
  return PARTITA_REQUEST_NULL;
}
inline MPI_Request null_of(const Part<MPI_Request>&) {
  return MPI_REQUEST_NULL;
}
inline int test_any(const Part<Partita_Request>& part, int* index, int* flag, MPI_Status* status) {
  return Partita_Testany(part.count, part.requests, index, flag, status);
}
inline int test_any(const Part<MPI_Request>& part, int* index, int* flag, MPI_Status* status) {
  return native().Testany(part.count, part.requests, index, flag, status);
}
inline int wait_any(const Part<Partita_Request>& part, int* index, MPI_Status* status) {
  return Partita_Waitany(part.count, part.requests, index, status);
}
inline int wait_any(const Part<MPI_Request>& part, int* index, MPI_Status* status) {
  return native().Waitany(part.count, part.requests, index, status);
}
inline int test_some(const Part<Partita_Request>& part, int* done, int indices[], MPI_Status statuses[]) {
  return Partita_Testsome(part.count, part.requests, done, indices, statuses);
}
inline int test_some(const Part<MPI_Request>& part, int* done, int indices[], MPI_Status statuses[]) {
  return native().Testsome(part.count, part.requests, done, indices, statuses);
}
inline int wait_some(const Part<Partita_Request>& part, int* done, int indices[], MPI_Status statuses[]) {
  return Partita_Waitsome(part.count, part.requests, done, indices, statuses);
}
inline int wait_some(const Part<MPI_Request>& part, int* done, int indices[], MPI_Status statuses[]) {
  return native().Waitsome(part.count, part.requests, done, indices, statuses);
}
inline int test_all(const Part<Partita_Request>& part, int* flag, MPI_Status statuses[]) {
  return Partita_Testall(part.count, part.requests, flag, statuses);
}
inline int test_one(Partita_Request* request, int* flag, MPI_Status* status) {
  return Partita_Test(request, flag, status);
}
inline int test_one(MPI_Request* request, int* flag, MPI_Status* status) {
  return native().Test(request, flag, status);
}

}  // namespace either
}  // namespace partita::dropin
