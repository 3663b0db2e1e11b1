// The C face of completion: the eight Wait and Test calls and Request_get_status (MPI-4, sections 3.7.3 to 3.7.6).
#include <array>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include "capi/array_call.hpp"
#include "capi/asking.hpp"
#include "capi/gpu_aware.hpp"
#include "capi/report.hpp"
#include "capi/waits.hpp"
#include "runtime/kept_while_looked_at.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

/// One look at an open operation: whether it is done, and so its epoch is closed now. One that is not persistent goes
/// then, and its handle becomes null. An error closes it too, and throws; the operation stays. An error handler that
/// the look calls may have completed it: then it is freed no second time.
bool try_close(Partita_Request& handle, MPI_Status* status) {
  Operation& operation = operation_of(handle);
  const KeptWhileLookedAt kept(operation);
  try {
    if (!operation.done()) return false;
  } catch (const std::exception&) {
    if (handle != PARTITA_REQUEST_NULL) operation.abandon(current_error());
    if (!operation.persistent()) operation.fill_status(status);
    throw;
  }
  operation.close();
  operation.fill_status(status);
  if (operation.persistent() || handle == PARTITA_REQUEST_NULL) [[likely]]
    return true;
  runtime().free(operation);
  ArrayCall::forget(std::exchange(handle, PARTITA_REQUEST_NULL), &handle);
  return true;
}

MPI_Status* status_at(MPI_Status statuses[], int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/// The status of a request that is null or inactive.
void fill_empty(MPI_Status* status) {
  set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

/// The outcome of each request of a call on many: MPI_ERR_PENDING while open, else the code with which it closed.
class Outcomes {
 public:
  Outcomes(const char* call, int count, Partita_Request requests[], MPI_Status statuses[], const Asking& asking)
      : call_(call),
        asking_(asking),
        requests_(requests),
        statuses_(statuses),
        codes_(static_cast<std::size_t>(count), MPI_ERR_PENDING, &memory_) {}

  /// Closes request `i` if it is done or failed; returns whether it is closed, which an error handler may have done.
  bool look(int i) {
    if (code(i) != MPI_ERR_PENDING) return true;
    if (!is_open(requests_[i])) {
      close_with(i, MPI_SUCCESS);
      return true;
    }
    if (asking_.is_waiting(operation_of(requests_[i]))) return false;
    try {
      if (!try_close(requests_[i], status_at(statuses_, i))) return false;
      code(i) = MPI_SUCCESS;
    } catch (...) {
      const Error error = current_error();
      is_raised_ = is_raised_ || error.raised_code() != 0;
      close_with(i, remember(call_, error));
    }
    return true;
  }
  void close_with(int i, int error_code) {
    code(i) = error_code;
    if (first_failure_ == MPI_SUCCESS) first_failure_ = error_code;
    if (error_code == MPI_SUCCESS) fill_empty(status_at(statuses_, i));
  }
  /// The wait itself failed: so do all that are open.
  void fail_open(const Error& error) {
    for (int i = 0; i < static_cast<int>(codes_.size()); ++i) {
      if (code(i) != MPI_ERR_PENDING) continue;
      if (requests_[i] != PARTITA_REQUEST_NULL) operation_of(requests_[i]).abandon(error);
      close_with(i, remember(call_, error));
    }
  }
  /// What the call returns, after the error handler has heard of it.
  int finish() {
    if (statuses_ != MPI_STATUSES_IGNORE) {
      for (std::size_t i = 0; i < codes_.size(); ++i) statuses_[i].MPI_ERROR = codes_[i];
    }
    if (first_failure_ == MPI_SUCCESS) return MPI_SUCCESS;
    if (is_raised_) return MPI_ERR_IN_STATUS;
    return raise_in_status(first_comm(static_cast<int>(codes_.size()), requests_), first_failure_);
  }

 private:
  int& code(int i) { return codes_[static_cast<std::size_t>(i)]; }

  const char* call_;
  const Asking& asking_;
  Partita_Request* requests_;
  MPI_Status* statuses_;
  alignas(int) std::array<std::byte, 64 * sizeof(int)> small_;  ///< so that up to 64 requests need no allocation
  std::pmr::monotonic_buffer_resource memory_{small_.data(), small_.size()};
  std::pmr::vector<int> codes_;
  int first_failure_ = MPI_SUCCESS;
  bool is_raised_ = false;  ///< the MPI's error handler has heard of a failure
};

/// In place of the first open request's index where none is open.
constexpr int none = -1;

/// Testany without the error handling. Returns whether the call is over.
bool any_closed(Asking& asking, int count, Partita_Request requests[], int* index, MPI_Status* status,
                int* first_open) {
  *index = MPI_UNDEFINED;
  *first_open = none;
  asking.ask(Asking::Wanted::one);
  for (int i = 0; i < count; ++i) {
    if (!is_open(requests[i])) continue;
    if (*first_open == none) *first_open = i;
    if (asking.is_waiting(operation_of(requests[i]))) continue;
    *index = i;
    if (try_close(requests[i], status)) return true;
  }
  *index = MPI_UNDEFINED;
  if (*first_open == none) fill_empty(status);
  return *first_open == none;
}

/// Testsome: closes what is done; `*outcount` is MPI_UNDEFINED if nothing is open.
int some_closed(const char* call, Asking& asking, int incount, Partita_Request requests[], int* outcount, int indices[],
                MPI_Status statuses[], int* first_open) {
  *outcount = 0;
  *first_open = none;
  asking.ask(Asking::Wanted::all);
  int first_failure = MPI_SUCCESS;
  bool is_raised = false;
  for (int i = 0; i < incount; ++i) {
    if (!is_open(requests[i])) continue;
    if (*first_open == none) *first_open = i;
    if (asking.is_waiting(operation_of(requests[i]))) continue;
    MPI_Status* status = status_at(statuses, *outcount);
    int code = MPI_SUCCESS;
    try {
      if (!try_close(requests[i], status)) continue;
    } catch (...) {
      const Error error = current_error();
      is_raised = is_raised || error.raised_code() != 0;
      code = remember(call, error);
      if (first_failure == MPI_SUCCESS) first_failure = code;
    }
    if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = code;
    indices[(*outcount)++] = i;
  }
  if (*first_open == none) *outcount = MPI_UNDEFINED;
  if (first_failure == MPI_SUCCESS) return MPI_SUCCESS;
  return is_raised ? MPI_ERR_IN_STATUS : raise_in_status(first_comm(incount, requests), first_failure);
}

template <class Body>
int on_requests(const char* call, int count, Partita_Request requests[], Body body) noexcept {
  return guarded(
      call, [&] { return first_comm(count, requests); },
      [&] {
        check_list(count, requests, "requests");
        check_not_enqueued(count, requests);
        const ArrayCall array(count, requests);
        body();
      });
}

}  // namespace

int Partita_Wait(Partita_Request* request, MPI_Status* status) {
  return on_requests("Wait", 1, request, [&] {
    check_status(status);
    if (!is_open(*request)) return fill_empty(status);
    if (try_close(*request, status)) return;  // most sends, without what a wait needs
    wait_for(1, request, [&] {
      if (*request != PARTITA_REQUEST_NULL) return try_close(*request, status);
      fill_empty(status);  // an error handler has completed it
      return true;
    });
  });
}

int Partita_Test(Partita_Request* request, int* flag, MPI_Status* status) {
  return on_requests("Test", 1, request, [&] {
    check_output(flag, "flag");
    check_status(status);
    const LookOnce look;
    *flag = 1;
    if (!is_open(*request)) return fill_empty(status);
    *flag = try_close(*request, status) ? 1 : 0;
    if (*flag == 0) watch_loop(1, request, 0);
  });
}

int Partita_Request_get_status(Partita_Request request, int* flag, MPI_Status* status) {
  return on_requests("Request_get_status", 1, &request, [&] {
    check_output(flag, "flag");
    check_status(status);
    const LookOnce look;
    *flag = 1;
    if (!is_open(request)) return fill_empty(status);
    Operation& asked = operation_of(request);
    const KeptWhileLookedAt kept(asked);
    *flag = asked.done() ? 1 : 0;
    if (*flag != 0) return asked.fill_status(status);
    fail_at_end_of_loop(asked);
  });
}

int Partita_Are_complete(int count, Partita_Request requests[], int* flag) {
  return on_requests("Testall", count, requests, [&] {
    const LookOnce look;
    std::optional<Asking> asking;
    int singly = 4;  // most often one of the first is not complete, which ends the look
    *flag = 1;
    for (int i = 0; i < count; ++i) {
      if (!is_open(requests[i])) continue;
      if (!asking && --singly < 0) {
        asking.emplace(count - i, requests + i);
        asking->ask(Asking::Wanted::all);
        if (!is_open(requests[i])) continue;  // an error handler has completed it
      }
      Operation& asked = operation_of(requests[i]);
      const KeptWhileLookedAt kept(asked);
      if (!(asking && asking->is_waiting(asked)) && asked.done()) continue;
      *flag = 0;
      return fail_at_end_of_loop(asked);
    }
  });
}

int Partita_Waitall(int count, Partita_Request requests[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Waitall", count, requests, [&] {
    check_statuses(count, statuses);
    Asking asking(count, requests);
    Outcomes outcomes("Waitall", count, requests, statuses, asking);
    asking.ask(Asking::Wanted::all);
    for (int i = 0; i < count; ++i) {
      if (!is_open(requests[i])) outcomes.close_with(i, MPI_SUCCESS);
    }
    for (int i = 0; i < count; ++i) {
      if (outcomes.look(i)) continue;
      try {
        runtime().wait_until(WaitingForFirstActive(count, requests), [&] {
          asking.ask(Asking::Wanted::all);
          for (int later = i + 1; later < count; ++later) outcomes.look(later);
          return outcomes.look(i);
        });
      } catch (const Error& error) {
        outcomes.fail_open(error);
      }
    }
    code = outcomes.finish();
  });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Testall(int count, Partita_Request requests[], int* flag, MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Testall", count, requests, [&] {
    check_output(flag, "flag");
    check_statuses(count, statuses);
    const LookOnce look;
    *flag = 1;
    Asking asking(count, requests);
    Outcomes outcomes("Testall", count, requests, statuses, asking);
    asking.ask(Asking::Wanted::all);
    int open = none;
    for (int i = 0; i < count; ++i) {
      if (!is_open(requests[i])) continue;
      Operation& operation = operation_of(requests[i]);
      const KeptWhileLookedAt kept(operation);
      try {
        if ((asking.is_waiting(operation) || !operation.done()) && open == none) open = i;
      } catch (const Error&) {
        // A failed request counts as done; look() below reports it.
      }
    }
    const bool is_watched = open != none && requests[open] != PARTITA_REQUEST_NULL;
    const auto end = is_watched ? end_of_loop(operation_of(requests[open])) : std::nullopt;
    if (open != none && !end) {
      *flag = 0;
      return;
    }
    for (int i = 0; i < count; ++i) {
      if (is_open(requests[i])) {
        outcomes.look(i);
      } else {
        outcomes.close_with(i, MPI_SUCCESS);
      }
    }
    if (end) outcomes.fail_open(*end);
    code = outcomes.finish();
  });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Waitany(int count, Partita_Request requests[], int* index, MPI_Status* status) {
  return on_requests("Waitany", count, requests, [&] {
    check_output(index, "index");
    check_status(status);
    Asking asking(count, requests);
    int first_open = none;
    const auto look = [&] { return any_closed(asking, count, requests, index, status, &first_open); };
    if (!look()) wait_for(count, requests, look);
  });
}

int Partita_Testany(int count, Partita_Request requests[], int* index, int* flag, MPI_Status* status) {
  return on_requests("Testany", count, requests, [&] {
    check_output(index, "index");
    check_output(flag, "flag");
    check_status(status);
    const LookOnce look;
    Asking asking(count, requests);
    int first_open = none;
    *flag = any_closed(asking, count, requests, index, status, &first_open) ? 1 : 0;
    if (*flag == 0) watch_loop(count, requests, first_open);
  });
}

int Partita_Waitsome(int incount, Partita_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Waitsome", incount, requests, [&] {
    check_output(outcount, "outcount");
    if (incount > 0) check_output(indices, "indices");
    check_statuses(incount, statuses);
    Asking asking(incount, requests);
    int first_open = none;
    const auto look = [&] {
      code = some_closed("Waitsome", asking, incount, requests, outcount, indices, statuses, &first_open);
      return *outcount != 0;
    };
    if (!look()) wait_for(incount, requests, look);
  });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Testsome(int incount, Partita_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Testsome", incount, requests, [&] {
    check_output(outcount, "outcount");
    if (incount > 0) check_output(indices, "indices");
    check_statuses(incount, statuses);
    const LookOnce look;
    Asking asking(incount, requests);
    int first_open = none;
    code = some_closed("Testsome", asking, incount, requests, outcount, indices, statuses, &first_open);
    if (*outcount == 0) watch_loop(incount, requests, first_open);
  });
  return called != MPI_SUCCESS ? called : code;
}
