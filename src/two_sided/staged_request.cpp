#include "two_sided/staged_request.hpp"

#include <utility>

#include "core/current_error.hpp"
#include "core/mpi_check.hpp"

namespace partita {

void StagedRequest::check_raised(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  int mpi_class = MPI_ERR_OTHER;
  native::Error_class(code, &mpi_class);
  throw Error(error_class_of(mpi_class), "the MPI failed in {}: {}", call, mpi_text(code)).raised_as(code);
}

/// A call that has succeeded has made a request. MPICH 5.0 returns success behind an error handler of the program's.
void StagedRequest::seek_peers() {
  if (!is_persistent_) fetch();
  int code = call_mpi(&request_);
  if (code == MPI_SUCCESS && request_ == MPI_REQUEST_NULL) code = MPI_ERR_OTHER;
  check_raised(code, call_name());
  if (!is_persistent_) phase_ = Phase::in_mpi;
}

void StagedRequest::start() {
  if (!is_persistent_) {
    throw Error(ErrorClass::request, "the request is that of the nonblocking {}; expected is a persistent one",
                call_name());
  }
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  if (request_ == MPI_REQUEST_NULL) {
    throw Error(ErrorClass::request,
                "an earlier start of the request has failed for good or was given up; expected is that it is freed");
  }
  failure_.reset();
  fetch();
  check_raised(native::Start(&request_), "MPI_Start");
  phase_ = Phase::in_mpi;
}

bool StagedRequest::prepared() {
  throw Error(ErrorClass::request, "the request is that of {}; expected is one with partitions", call_name());
}

/// What has failed once stays so: a second look would find the MPI's request gone, and take that for success.
bool StagedRequest::done() {
  if (failure_) throw Error(*failure_);
  try {
    return proceed();
  } catch (const std::exception&) {
    failure_ = current_error();
    throw;
  }
}

bool StagedRequest::proceed() {
  if (phase_ == Phase::in_mpi) {
    int complete = 0;
    const int code = native::Test(&request_, &complete, &status_);
    if (code == MPI_SUCCESS && complete == 0) return false;
    phase_ = Phase::delivery;
    if (code != MPI_SUCCESS) leave_to_the_mpi();  // what it has failed to move it may still have in its hands
    check_raised(code, "MPI_Test");
    begin_delivery(status_);
  }
  return settled();
}

void StagedRequest::fill_status(MPI_Status* status) const {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = status_;
  status->MPI_ERROR = error;
}

/// A request that the MPI does not let go is left to it, and the host memory with it.
void StagedRequest::abandon(const std::optional<Error>&) {
  if (std::exchange(phase_, Phase::inactive) != Phase::in_mpi) return;
  int complete = 0;
  if (may_be_cancelled()) native::Cancel(&request_);
  native::Test(&request_, &complete, MPI_STATUS_IGNORE);
  if (complete != 0 || request_ == MPI_REQUEST_NULL) return;
  leave_to_the_mpi();
  if (goes_on_when_freed()) native::Request_free(&request_);
  request_ = MPI_REQUEST_NULL;
}

bool StagedRequest::lingers() {
  try {
    return active() && !done();
  } catch (const std::exception&) {
    return false;
  }
}

void StagedRequest::stop_lingering() {
  abandon({});
  if (request_ != MPI_REQUEST_NULL) native::Request_free(&request_);
}

std::vector<InfoEntry> StagedRequest::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

}  // namespace partita
