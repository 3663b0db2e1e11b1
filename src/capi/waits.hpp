// What the calls that wait for an array of requests share.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "capi/requests.hpp"

namespace partita::capi {

/// Whether `handle` stands for a request between its start and the call that completes it.
inline bool is_open(Partita_Request handle) {
  return handle != PARTITA_REQUEST_NULL && operation_of(handle).open();
}

/// Throws Error (arg) on a status that is neither given nor ignored: MPI_STATUS_IGNORE is null in some MPIs only.
inline void check_status(const MPI_Status* status) {
  if (status == nullptr && status != MPI_STATUS_IGNORE)
    throw Error(ErrorClass::arg, "argument status is null; expected is a status or MPI_STATUS_IGNORE");
}
inline void check_statuses(int count, const MPI_Status statuses[]) {
  if (count > 0 && statuses == nullptr && statuses != MPI_STATUSES_IGNORE)
    throw Error(ErrorClass::arg, "argument statuses is null; expected are {} statuses or MPI_STATUSES_IGNORE", count);
}

/// Throws Error on a request whose start stands in a queue: the host may not complete it.
inline void check_not_enqueued(int count, const Partita_Request requests[]) {
  for (int i = 0; i < count; ++i) {
    if (requests[i] == PARTITA_REQUEST_NULL || !operation_of(requests[i]).queue_use().enqueued()) continue;
    throw_enqueued(operation_of(requests[i]));
  }
}

/// The open ones of `requests` are given up, so that they can be freed.
inline void abandon_open(int count, const Partita_Request requests[], const Error& error) {
  for (int i = 0; i < count; ++i) {
    if (is_open(requests[i])) operation_of(requests[i]).abandon(error);
  }
}

/// A call that looks once. The first one in each turn of a wait that calls its caller belongs to that wait, which makes
/// the progress and is watched itself. All others make progress and are watched: so are those in an error handler of
/// the program's, also where a look of a wait has it called.
class LookOnce {
 public:
  LookOnce() : outer_(std::exchange(is_of_a_wait, std::exchange(next_is_of_a_wait, false))) {
    Progress& progress = runtime().progress;
    if (!is_of_a_wait && progress.wanted()) progress.poll();
  }
  ~LookOnce() { is_of_a_wait = outer_; }
  LookOnce(const LookOnce&) = delete;
  LookOnce& operator=(const LookOnce&) = delete;

  /// One turn of such a wait.
  class OfWait {
   public:
    OfWait() { next_is_of_a_wait = true; }
    ~OfWait() { next_is_of_a_wait = false; }
    OfWait(const OfWait&) = delete;
    OfWait& operator=(const OfWait&) = delete;
  };
  /// Whether the call that this thread is in belongs to a wait.
  static bool belongs_to_a_wait() { return is_of_a_wait; }

 private:
  inline static thread_local bool next_is_of_a_wait = false;
  inline static thread_local bool is_of_a_wait = false;

  const bool outer_;
};

/// A call that does not wait has found `asked` open, or a partition of it not arrived. Why the loop that the call
/// belongs to ends, if it does.
inline std::optional<Error> end_of_loop(Operation& asked) {
  if (LookOnce::belongs_to_a_wait()) return {};
  Runtime& current = runtime();
  try {
    asked.loop_watch().look(asked, current.settings, current.world, current.progress);
  } catch (const WaitError& error) {
    return error;
  }
  return {};
}

/// Looks at a loop in a call that leaves the request open: its next completion call says why, too.
inline void fail_at_end_of_loop(Operation& asked) {
  if (const auto error = end_of_loop(asked)) {
    asked.fail(*error);
    throw Error(*error);
  }
}

/// Explains a wait by whichever of `requests` is still active when someone asks.
class WaitingForFirstActive final : public Waiting {
 public:
  WaitingForFirstActive(int count, const Partita_Request* requests) : count_(count), requests_(requests) {}
  std::string explain() const override {
    const Operation* const operation = first_active();
    return operation != nullptr ? operation->explain()
                                : "All partitioned requests are complete; requests of the MPI are not.";
  }
  int waits_for() const override {
    const Operation* const operation = first_active();
    return operation != nullptr ? operation->waits_for() : -1;
  }

 private:
  const Operation* first_active() const {
    for (int i = 0; i < count_; ++i) {
      if (is_open(requests_[i])) return &operation_of(requests_[i]);
    }
    return nullptr;
  }

  int count_;
  const Partita_Request* requests_;
};

/// Blocks until `done` returns true. When the wait itself fails, the open ones of `requests` are given up, so that they
/// can be freed.
template <class Done>
void wait_for(int count, const Partita_Request requests[], Done done) {
  try {
    runtime().wait_until(WaitingForFirstActive(count, requests), done);
  } catch (const WaitError& error) {
    abandon_open(count, requests, error);
    throw;
  }
}

/// Ends a loop of tests like that wait: to be called where one has found request `open` so.
inline void watch_loop(int count, const Partita_Request requests[], int open) {
  if (requests[open] == PARTITA_REQUEST_NULL) return;  // an error handler has freed it since
  if (const auto error = end_of_loop(operation_of(requests[open]))) {
    abandon_open(count, requests, *error);
    throw Error(*error);
  }
}

}  // namespace partita::capi
