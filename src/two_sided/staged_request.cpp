#include "two_sided/staged_request.hpp"

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
  if (code == MPI_SUCCESS && request_ == MPI_REQUEST_NULL && !is_there(status_)) code = MPI_ERR_OTHER;
  check_raised(code, call_name());
  if (!is_persistent_) enter_mpi();
}

/// What is wrong with a message that is there already, whoever completes it hears.
void StagedRequest::enter_mpi() {
  if (!is_there(status_)) {
    enter(Phase::in_mpi);
    return;
  }
  enter(Phase::arrived);
  end_apart();
  try {
    delivers();
  } catch (const std::exception&) {
    failure_ = current_error();
  }
}

int StagedRequest::start_mpi(MPI_Request* request) {
  return native::Start(request);
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
  check_raised(start_mpi(&request_), "MPI_Start");
  enter_mpi();
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
  if (is_in_mpi()) {
    int complete = 0;
    const int code = native::Test(&request_, &complete, &status_);
    if (code == MPI_SUCCESS && complete == 0) return false;
    enter(code == MPI_SUCCESS ? Phase::arrived : Phase::delivery);
    if (code != MPI_SUCCESS) leave_to_the_mpi();  // what it has failed to move it may still have in its hands
    check_raised(code, "MPI_Test");
    end_apart();
  }
  return delivers() && settled();
}

/// Whether the delivery has begun; it begins here, once.
bool StagedRequest::delivers() {
  if (phase() != Phase::arrived) return true;
  if (place_ != nullptr && !place_->passed()) return false;
  place_.reset();
  enter(Phase::delivery);
  begin_delivery(status_);
  return true;
}

void StagedRequest::deliver_behind_stream(GpuLanes& lanes, int device) {
  place_ = StreamPlace::mark(lanes, communicator().get(), device);
}

void StagedRequest::await_stream(GpuLanes& lanes, int device) {
  if (const auto place = StreamPlace::mark(lanes, communicator().get(), device)) place->await();
}

void StagedRequest::fill_status(MPI_Status* status) const {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = status_;
  status->MPI_ERROR = error;
}

/// The persistent request is this one's again.
void StagedRequest::end_apart() {
  if (persistent_ != MPI_REQUEST_NULL) request_ = std::exchange(persistent_, MPI_REQUEST_NULL);
}

void StagedRequest::abandon(const std::optional<Error>&) {
  give_up_epoch();
  end_apart();
}

/// A request that the MPI does not let go is left to it, and the host memory with it.
void StagedRequest::give_up_epoch() {
  const bool was_in_mpi = is_in_mpi();
  const bool has_arrived = phase() == Phase::arrived;
  enter(Phase::inactive);
  place_.reset();
  if (has_arrived) refuse(status_);
  if (!was_in_mpi) return;
  int complete = 0;
  MPI_Status status{};
  if (may_be_cancelled()) native::Cancel(&request_);
  const int code = native::Test(&request_, &complete, &status);
  if (code == MPI_SUCCESS && complete != 0) refuse(status);
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
  std::vector<InfoEntry> entries{{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
  if (const char* const memory = memory_name()) entries.push_back({"partita_memory", memory});
  if (std::string why = reason(); !why.empty()) entries.push_back({"partita_reason", std::move(why)});
  return entries;
}

}  // namespace partita
