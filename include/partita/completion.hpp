// The C++ API: completion of several requests (MPI-4, section 3.7.5). <partita/partita.hpp> includes this.
//
// What such a call has completed is never lost, whatever it throws: it stands in the argument `done`, which is filled
// before anything is thrown, and in the completion_error. An error that is no completion_error has completed nothing:
// the call was refused; or the wait as a whole has failed (time limit, dead peer), and with it all requests that were
// still active.
#ifndef PARTITA_COMPLETION_HPP
#define PARTITA_COMPLETION_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/error.hpp>
#include <partita/request.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

/// How one request of several was completed.
struct completion {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t index = none;  ///< the request's place among them
  MPI_Status status{};       ///< MPI_ERROR is not meaningful
  int code = MPI_SUCCESS;    ///< of its error: error(code) has its class

  [[nodiscard]] bool failed() const noexcept { return code != MPI_SUCCESS; }
  /// Whether there is one.
  explicit operator bool() const noexcept { return index != none; }
};

/// One request of several has failed, and perhaps others have not: code() and what() are those of the first that has.
/// As a thread keeps one sentence for each class, of several that fail with the same class each has that of the last.
class PARTITA_EXPORT completion_error final : public error {
 public:
  completion_error(int code, std::vector<completion> completed)
      : error(code), completed_(std::make_shared<const std::vector<completion>>(std::move(completed))) {}

  /// All requests that the call has completed, those that have failed included; lives as long as this error.
  [[nodiscard]] const std::vector<completion>& completed() const noexcept { return *completed_; }

 private:
  std::shared_ptr<const std::vector<completion>> completed_;
};

namespace detail {

/// Puts into `list` what a call on several requests has completed: `count` of them, at `indices`, or the first ones
/// where these are null. `code` is what it has returned. Throws what has failed.
inline void take(std::vector<completion>& list, int code, int count, const int* indices, const MPI_Status* statuses) {
  list.clear();
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) throw error(code);
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    list.push_back({static_cast<std::size_t>(indices ? indices[i] : i), statuses[i], statuses[i].MPI_ERROR});
  }
  const auto failed = std::find_if(list.begin(), list.end(), [](const completion& each) { return each.failed(); });
  if (failed != list.end()) throw completion_error(failed->code, list);
  check(code);
}

}  // namespace detail

/// What a call has completed, in the order of the requests. To be used again for the next call, which replaces what it
/// holds: a loop allocates nothing then.
class completions final {
 public:
  [[nodiscard]] std::vector<completion>::const_iterator begin() const noexcept { return list_.begin(); }
  [[nodiscard]] std::vector<completion>::const_iterator end() const noexcept { return list_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return list_.size(); }
  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  [[nodiscard]] const completion& operator[](std::size_t i) const { return list_[i]; }

  /// Takes the place of what `call(indices, statuses)` completes: a C call on `incount` requests, which fills the first
  /// `count` elements of the arrays. Throws what has failed.
  template <class Call>
  void fill(int incount, const int& count, Call call) {
    list_.clear();
    const auto size = static_cast<std::size_t>(incount);
    list_.reserve(size);
    if (statuses_.size() < size) statuses_.resize(size);
    if (indices_.size() < size) indices_.resize(size);
    const int code = call(indices_.data(), statuses_.data());
    detail::take(list_, code, count, indices_.data(), statuses_.data());
  }

 private:
  std::vector<completion> list_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

namespace detail {

/// Makes `call`, which completes at most one request and gives its index.
template <class Call>
void complete_one(completion& done, Call call) {
  done = completion();
  int index = MPI_UNDEFINED;
  const int code = call(&index, &done.status);
  if (index != MPI_UNDEFINED) {
    done.index = static_cast<std::size_t>(index);
    done.code = code;
    if (done.failed()) throw completion_error(code, {done});
  }
  check(code);
}

/// Makes `call`, which completes all of `count` requests or, where it leaves `complete` 0, none.
template <class Call>
void complete_all(int count, completions& done, const int& complete, Call call) {
  int completed = 0;
  done.fill(count, completed, [&](int* indices, MPI_Status* statuses) {
    const int code = call(statuses);
    if (complete != 0) completed = count;
    for (int i = 0; i < completed; ++i) indices[i] = i;
    return code;
  });
}

/// The same for who wants no completions: the statuses of up to 16 requests take no allocation.
template <class Call>
void complete_all(int count, Call call) {
  constexpr int few = 16;
  MPI_Status own_few[few];
  std::vector<MPI_Status> own_many(count > few ? static_cast<std::size_t>(count) : 0);
  MPI_Status* const own = count > few ? own_many.data() : own_few;
  const int code = call(own);
  if (code == MPI_SUCCESS) return;
  std::vector<completion> completed;
  take(completed, code, count, nullptr, own);
}

}  // namespace detail

// ---- All of several ----------------------------------------------------------------------------------------------

/// Waits for all. Where some fail the others are complete all the same.
inline void waitall(request_span requests, completions& done) {
  detail::complete_all(requests.count(), done, 1, [&](MPI_Status* statuses) {
    return Partita_Waitall(requests.count(), requests.handles(), statuses);
  });
}
inline void waitall(request_span requests) {
  detail::complete_all(requests.count(), [&](MPI_Status* statuses) {
    return Partita_Waitall(requests.count(), requests.handles(), statuses);
  });
}
/// As MPI's call: where some fail the error is of class MPI_ERR_IN_STATUS, and error(statuses[i].MPI_ERROR) is that of
/// one.
inline void waitall(request_span requests, MPI_Status* statuses) {
  if (statuses == MPI_STATUSES_IGNORE) return waitall(requests);
  check(Partita_Waitall(requests.count(), requests.handles(), statuses));
}

/// Whether all are complete. Else none is completed.
[[nodiscard]] inline bool testall(request_span requests, completions& done) {
  int flag = 0;
  detail::complete_all(requests.count(), done, flag, [&](MPI_Status* statuses) {
    return Partita_Testall(requests.count(), requests.handles(), &flag, statuses);
  });
  return flag != 0;
}
[[nodiscard]] inline bool testall(request_span requests) {
  int flag = 0;
  detail::complete_all(requests.count(), [&](MPI_Status* statuses) {
    return Partita_Testall(requests.count(), requests.handles(), &flag, statuses);
  });
  return flag != 0;
}
/// Errors as with statuses in waitall.
[[nodiscard]] inline bool testall(request_span requests, MPI_Status* statuses) {
  if (statuses == MPI_STATUSES_IGNORE) return testall(requests);
  int flag = 0;
  check(Partita_Testall(requests.count(), requests.handles(), &flag, statuses));
  return flag != 0;
}

// ---- Some of several ---------------------------------------------------------------------------------------------
//
// Each of these returns whether there was an active request. So `while (waitsome(requests, done))` takes each one's
// completion once, and ends when all have been taken.

/// Waits for one.
inline bool waitany(request_span requests, completion& done) {
  detail::complete_one(done, [&](int* index, MPI_Status* status) {
    return Partita_Waitany(requests.count(), requests.handles(), index, status);
  });
  return static_cast<bool>(done);
}

/// Completes one if it can.
inline bool testany(request_span requests, completion& done) {
  int flag = 0;
  detail::complete_one(done, [&](int* index, MPI_Status* status) {
    return Partita_Testany(requests.count(), requests.handles(), index, &flag, status);
  });
  return done || flag == 0;
}

/// Waits for at least one, and completes all that are complete by then.
inline bool waitsome(request_span requests, completions& done) {
  int count = 0;
  done.fill(requests.count(), count, [&](int* indices, MPI_Status* statuses) {
    return Partita_Waitsome(requests.count(), requests.handles(), &count, indices, statuses);
  });
  return count != MPI_UNDEFINED;
}

/// Completes all that are complete.
inline bool testsome(request_span requests, completions& done) {
  int count = 0;
  done.fill(requests.count(), count, [&](int* indices, MPI_Status* statuses) {
    return Partita_Testsome(requests.count(), requests.handles(), &count, indices, statuses);
  });
  return count != MPI_UNDEFINED;
}

}  // namespace partita
#endif
