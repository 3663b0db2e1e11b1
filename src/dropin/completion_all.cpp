// MPI_Waitall and MPI_Testall on arrays that mix both kinds of requests (MPI-4, section 3.7.5).
#include <mpi.h>
#include <partita/partita.h>

#include "capi/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/native_waitall.hpp"
#include "dropin/polling.hpp"
#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/runtime.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {
namespace {

int wait_all(const Part<Partita_Request>& part, MPI_Status statuses[]) {
  return Partita_Waitall(part.count, part.requests, statuses);
}
int wait_all(const Part<MPI_Request>& part, MPI_Status statuses[]) {
  return native_waitall(part.count, part.requests, statuses);
}

/// One call for all requests of an array. What completes is given to the caller and leaves its part.
class CompletionOfAll {
 public:
  static std::size_t need(int count) {
    const auto n = static_cast<std::size_t>(count);
    return Split::need(count) + Scratch::need<MPI_Status>(n) + Scratch::need<int>(n);
  }

  CompletionOfAll(int count, MPI_Request* requests, MPI_Status* statuses, Scratch& scratch)
      : split_(count, requests, scratch), count_(count), statuses_(statuses) {
    indices_ = scratch.take<int>(static_cast<std::size_t>(count));
    if (statuses != MPI_STATUSES_IGNORE) found_ = scratch.take<MPI_Status>(static_cast<std::size_t>(count));
  }

  /// Whether the MPI's own call does not serve. It also refuses missing statuses, unless requests of ours are there.
  bool is_needed() const { return split_.own.count > 0 || (progress_by_caller() && !are_missing(statuses_)); }
  bool any_of_ours() const { return split_.own.count > 0; }
  int wait();
  int test(int* flag);

 private:
  template <class Request>
  int look_at(Part<Request>& part);
  template <class Request>
  int wait_in(Part<Request>& part);
  template <class Request>
  void give_all(Part<Request>& part);
  enum class Own { complete, pending, failed, refused };
  Own look_at_own(int* code);
  template <class Request>
  void settle(Part<Request>& part);
  int failed(int code);
  int gave_up(int code);

  template <class Request>
  void give(const Part<Request>& part, int i, const MPI_Status* status);
  void give_empty_statuses();

  Split split_;
  int count_;
  MPI_Status* statuses_;
  MPI_Status* found_ = MPI_STATUSES_IGNORE;
  int* indices_ = nullptr;
};

int CompletionOfAll::wait() {
  if (are_missing(statuses_)) return wait_all(split_.own, statuses_);  // refuses them
  give_empty_statuses();
  if (split_.foreign.count == 0) return wait_in(split_.own);
  int code = MPI_SUCCESS;
  const int waited = wait_until(split_.own, [&] {
    code = look_at(split_.own);
    split_.drop_gone();
    if (code == MPI_SUCCESS) code = look_at(split_.foreign);
    return code != MPI_SUCCESS || split_.foreign.count == 0 || (split_.own.count == 0 && !progress_by_caller());
  });
  if (waited != MPI_SUCCESS) return gave_up(waited);
  if (code != MPI_SUCCESS) return failed(code);
  split_.drop_gone();
  if (code = wait_in(split_.own); code != MPI_SUCCESS) return code;
  split_.drop_gone();
  return wait_in(split_.foreign);
}

/// Completes nothing unless everything can be completed. Ours are only looked at until the MPI, whose own call is all
/// or nothing, has completed its part. (PMPI_Request_get_status is no way to look at those: MPICH 5.0 then loses the
/// status of a persistent request.)
int CompletionOfAll::test(int* flag) {
  if (are_missing(statuses_)) return either::test_all(split_.own, flag, statuses_);  // refuses them
  *flag = 0;
  int code = MPI_SUCCESS;
  switch (look_at_own(&code)) {
    case Own::complete:
      break;
    case Own::pending:
      make_mpi_progress();
      return MPI_SUCCESS;
    case Own::failed:
      give_empty_statuses();
      return failed(MPI_ERR_IN_STATUS);
    case Own::refused:
      return code;
  }
  split_.drop_gone();
  Part<MPI_Request>& foreign = split_.foreign;
  code = native().Testall(foreign.count, foreign.requests, flag, found_);
  if (code == MPI_SUCCESS && *flag == 0) return MPI_SUCCESS;
  if (code != MPI_SUCCESS && !is_in_status(code)) return code;

  give_empty_statuses();
  give_all(foreign);
  if (code != MPI_SUCCESS) return failed(code);
  split_.drop_gone();
  code = wait_in(split_.own);
  *flag = 1;
  return code;
}

/// Gives what has completed in `part`. A part in which nothing is active any more becomes empty.
template <class Request>
int CompletionOfAll::look_at(Part<Request>& part) {
  if (part.count == 0) return MPI_SUCCESS;
  int done = 0;
  const int code = either::test_some(part, &done, indices_, found_);
  if (done == MPI_UNDEFINED) {
    part.count = 0;
    return code;
  }
  if (code != MPI_SUCCESS && !is_in_status(code)) return code;
  for (int i = 0; i < done; ++i) {
    give(part, indices_[i], found_ == MPI_STATUSES_IGNORE ? nullptr : &found_[i]);
    part.places[indices_[i]] = -1;
  }
  if (done > 0) part.remove_without_place(either::null_of(part));
  return code;
}

/// Waits for all of `part`, the only one that is not empty.
template <class Request>
int CompletionOfAll::wait_in(Part<Request>& part) {
  if (part.count == 0) return MPI_SUCCESS;
  const int code = wait_all(part, found_);
  give_all(part);
  return code;
}

/// Gives everything in `part`, whose outcome is in `found_`.
template <class Request>
void CompletionOfAll::give_all(Part<Request>& part) {
  for (int i = 0; i < part.count; ++i) give(part, i, found_ == MPI_STATUSES_IGNORE ? nullptr : &found_[i]);
  part.count = 0;
}

/// What our requests say together; `*code` is an error's. None is completed.
CompletionOfAll::Own CompletionOfAll::look_at_own(int* code) {
  constexpr int untouched = -1;
  int complete = untouched;
  *code = Partita_Are_complete(split_.own.count, split_.own.requests, &complete);
  if (*code != MPI_SUCCESS) return complete == untouched ? Own::refused : Own::failed;
  return complete == 0 ? Own::pending : Own::complete;
}

/// Ends a call in which a request failed: every status says what became of its request.
int CompletionOfAll::failed(int code) {
  if (!is_in_status(code)) return code;
  settle(split_.own);
  settle(split_.foreign);
  return code;
}

/// Ends a wait that the watch ended with `code`: our requests that were left are inactive now.
int CompletionOfAll::gave_up(int code) {
  MPI_Status status = empty_status();
  status.MPI_ERROR = code;
  for (int i = 0; i < split_.own.count; ++i) give(split_.own, i, &status);
  settle(split_.foreign);
  return MPI_ERR_IN_STATUS;
}

template <class Request>
void CompletionOfAll::settle(Part<Request>& part) {
  for (int i = 0; i < part.count; ++i) {
    split_.drop_if_gone(part, i, either::null_of(part));
    MPI_Status status = empty_status();
    int complete = 0;
    const int code = either::test_one(&part.requests[i], &complete, &status);
    status.MPI_ERROR = code != MPI_SUCCESS ? code : complete != 0 ? MPI_SUCCESS : MPI_ERR_PENDING;
    give(part, i, &status);
  }
}

template <class Request>
void CompletionOfAll::give(const Part<Request>& part, int i, const MPI_Status* status) {
  split_.put_back(part, i);
  if (statuses_ != MPI_STATUSES_IGNORE && status != nullptr) statuses_[part.places[i]] = *status;
}

/// What requests that are null or inactive have in the end: the error fields say success.
void CompletionOfAll::give_empty_statuses() {
  for (int i = 0; statuses_ != MPI_STATUSES_IGNORE && i < count_; ++i) statuses_[i] = empty_status();
}

bool is_plain(int count, const MPI_Request requests[]) {
  return nothing_is_ours() || count <= 0 || requests == nullptr;
}

}  // namespace
}  // namespace partita::dropin

extern "C" {

INTERPOSE(Waitall)(int count, MPI_Request requests[], MPI_Status statuses[]) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    if (is_plain(count, requests)) return native_waitall(count, requests, statuses);
    Scratch scratch(CompletionOfAll::need(count));
    CompletionOfAll all(count, requests, statuses, scratch);
    return all.is_needed() ? ended(all.wait(), count, requests) : native_waitall(count, requests, statuses);
  });
}

INTERPOSE(Testall)(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    if (is_plain(count, requests) || flag == nullptr) return native().Testall(count, requests, flag, statuses);
    Scratch scratch(CompletionOfAll::need(count));
    CompletionOfAll all(count, requests, statuses, scratch);
    progress_if_by_caller();
    return all.any_of_ours() ? ended(all.test(flag), count, requests)
                             : native().Testall(count, requests, flag, statuses);
  });
}

}  // extern "C"
