// The C face of completion: the eight Wait and Test calls and Request_get_status (MPI-4, sections 3.7.3 to 3.7.6).
#include <array>
#include <memory_resource>
#include <vector>

#include "capi/report.hpp"
#include "capi/waits.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

/// One look at an open operation: whether it is done, and so its epoch is closed now. One that is not persistent goes
/// then, and its handle becomes null. An error closes it too, and throws; the operation stays.
bool try_close(Partita_Request& handle, MPI_Status* status) {
  Operation& operation = operation_of(handle);
  try {
    if (!operation.done()) return false;
  } catch (const std::exception&) {
    operation.abandon(current_error());
    if (!operation.persistent()) operation.fill_status(status);
    throw;
  }
  operation.close();
  operation.fill_status(status);
  if (operation.persistent()) [[likely]]
    return true;
  runtime().free(operation);
  handle = PARTITA_REQUEST_NULL;
  return true;
}

MPI_Status* status_at(MPI_Status statuses[], int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/// The status of a request that is null or inactive.
void fill_empty(MPI_Status* status) {
  set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

void poll() {
  Progress& progress = runtime().progress;
  if (progress.wanted()) progress.poll();
}

/// The outcome of each request of a call on many: MPI_ERR_PENDING while open, else the code with which it closed.
class Outcomes {
 public:
  Outcomes(const char* call, int count, Partita_Request requests[], MPI_Status statuses[])
      : call_(call),
        requests_(requests),
        statuses_(statuses),
        codes_(static_cast<std::size_t>(count), MPI_ERR_PENDING, &memory_) {}

  /// Closes request `i` if it is done or failed; returns whether it is closed.
  bool look(int i) {
    if (code(i) != MPI_ERR_PENDING) return true;
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
      operation_of(requests_[i]).abandon(error);
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
  Partita_Request* requests_;
  MPI_Status* statuses_;
  alignas(int) std::array<std::byte, 64 * sizeof(int)> small_;  ///< so that up to 64 requests need no allocation
  std::pmr::monotonic_buffer_resource memory_{small_.data(), small_.size()};
  std::pmr::vector<int> codes_;
  int first_failure_ = MPI_SUCCESS;
  bool is_raised_ = false;  ///< the MPI's error handler has heard of a failure
};

/// Testany without the error handling. Returns whether the call is over.
bool any_closed(int count, Partita_Request requests[], int* index, MPI_Status* status, Operation** first_open) {
  *index = MPI_UNDEFINED;
  *first_open = nullptr;
  for (int i = 0; i < count; ++i) {
    if (!is_open(requests[i])) continue;
    Operation& operation = operation_of(requests[i]);
    if (*first_open == nullptr) *first_open = &operation;
    *index = i;
    if (try_close(requests[i], status)) return true;
  }
  *index = MPI_UNDEFINED;
  if (*first_open == nullptr) fill_empty(status);
  return *first_open == nullptr;
}

/// Testsome: closes what is done; `*outcount` is MPI_UNDEFINED if nothing is open.
int some_closed(const char* call, int incount, Partita_Request requests[], int* outcount, int indices[],
                MPI_Status statuses[], Operation** first_open) {
  *outcount = 0;
  *first_open = nullptr;
  int first_failure = MPI_SUCCESS;
  bool is_raised = false;
  for (int i = 0; i < incount; ++i) {
    if (!is_open(requests[i])) continue;
    Operation& operation = operation_of(requests[i]);
    if (*first_open == nullptr) *first_open = &operation;
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
  if (*first_open == nullptr) *outcount = MPI_UNDEFINED;
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
        body();
      });
}

}  // namespace

int Partita_Wait(Partita_Request* request, MPI_Status* status) {
  return on_requests("Wait", 1, request, [&] {
    check_status(status);
    if (!is_open(*request)) return fill_empty(status);
    if (try_close(*request, status)) return;  // most sends, without what a wait needs
    Operation& waited = operation_of(*request);
    wait_for(1, request, waited, [&] { return try_close(*request, status); });
  });
}

int Partita_Test(Partita_Request* request, int* flag, MPI_Status* status) {
  return on_requests("Test", 1, request, [&] {
    check_output(flag, "flag");
    check_status(status);
    poll();
    *flag = 1;
    if (!is_open(*request)) return fill_empty(status);
    Operation& tested = operation_of(*request);
    *flag = try_close(*request, status) ? 1 : 0;
    if (*flag == 0) watch_loop(1, request, tested);
  });
}

int Partita_Request_get_status(Partita_Request request, int* flag, MPI_Status* status) {
  return on_requests("Request_get_status", 1, &request, [&] {
    check_output(flag, "flag");
    check_status(status);
    poll();
    *flag = 1;
    if (!is_open(request)) return fill_empty(status);
    Operation& asked = operation_of(request);
    *flag = asked.done() ? 1 : 0;
    if (*flag != 0) return asked.fill_status(status);
    fail_at_end_of_loop(asked);
  });
}

int Partita_Waitall(int count, Partita_Request requests[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Waitall", count, requests, [&] {
    check_statuses(count, statuses);
    Outcomes outcomes("Waitall", count, requests, statuses);
    for (int i = 0; i < count; ++i) {
      if (!is_open(requests[i])) outcomes.close_with(i, MPI_SUCCESS);
    }
    for (int i = 0; i < count; ++i) {
      if (outcomes.look(i)) continue;
      try {
        runtime().wait_until(operation_of(requests[i]), [&] {
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
    poll();
    *flag = 1;
    Outcomes outcomes("Testall", count, requests, statuses);
    Operation* open = nullptr;
    for (int i = 0; i < count; ++i) {
      if (!is_open(requests[i])) continue;
      try {
        if (!operation_of(requests[i]).done() && open == nullptr) open = &operation_of(requests[i]);
      } catch (const Error&) {
        // A failed request counts as done; look() below reports it.
      }
    }
    const auto end = open == nullptr ? std::nullopt : end_of_loop(*open);
    if (open != nullptr && !end) {
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
    Operation* first_open = nullptr;
    if (any_closed(count, requests, index, status, &first_open)) return;
    wait_for(count, requests, *first_open, [&] { return any_closed(count, requests, index, status, &first_open); });
  });
}

int Partita_Testany(int count, Partita_Request requests[], int* index, int* flag, MPI_Status* status) {
  return on_requests("Testany", count, requests, [&] {
    check_output(index, "index");
    check_output(flag, "flag");
    check_status(status);
    poll();
    Operation* first_open = nullptr;
    *flag = any_closed(count, requests, index, status, &first_open) ? 1 : 0;
    if (*flag == 0) watch_loop(count, requests, *first_open);
  });
}

int Partita_Waitsome(int incount, Partita_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Waitsome", incount, requests, [&] {
    check_output(outcount, "outcount");
    if (incount > 0) check_output(indices, "indices");
    check_statuses(incount, statuses);
    Operation* first_open = nullptr;
    const auto look = [&] {
      code = some_closed("Waitsome", incount, requests, outcount, indices, statuses, &first_open);
      return *outcount != 0;
    };
    if (!look()) wait_for(incount, requests, *first_open, look);
  });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Testsome(int incount, Partita_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  int code = MPI_SUCCESS;
  const int called = on_requests("Testsome", incount, requests, [&] {
    check_output(outcount, "outcount");
    if (incount > 0) check_output(indices, "indices");
    check_statuses(incount, statuses);
    poll();
    Operation* first_open = nullptr;
    code = some_closed("Testsome", incount, requests, outcount, indices, statuses, &first_open);
    if (*outcount == 0) watch_loop(incount, requests, *first_open);
  });
  return called != MPI_SUCCESS ? called : code;
}
