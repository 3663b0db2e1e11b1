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

/// The error handler may complete this request, and finds that it has failed.
void StagedRequest::check(int code, const char* call) {
  try {
    check_raised(code, call);
  } catch (const Error& error) {
    failure_ = error;
    hear(code);
    throw;
  }
}

/// A call that has succeeded has made a request. MPICH 5.0 returns success behind an error handler of the program's.
void StagedRequest::seek_peers() {
  if (!is_persistent_) fetch();
  int code = call_mpi(&request_);
  if (code == MPI_SUCCESS && request_ == MPI_REQUEST_NULL && !is_there(status_)) code = MPI_ERR_OTHER;
  check(code, call_name());
  if (!is_persistent_) enter_mpi();
}

/// What is wrong with a message that is there already, whoever completes it hears.
void StagedRequest::enter_mpi() {
  if (!is_there(status_)) {
    const std::lock_guard lock(together_mutex_);
    is_to_be_cancelled_ = false;
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
    if (!is_to_ask()) return false;
    StagedRequest::cancel_if_wanted();
    if (request_ == MPI_REQUEST_NULL) end_in_mpi(MPI_ERR_OTHER);  // whoever asked has not heard the code yet
    int complete = 0;
    const int code = native::Test(&request_, &complete, &status_);
    if (code == MPI_SUCCESS && complete == 0) return false;
    end_in_mpi(code);
  }
  return delivers() && settled();
}

/// The MPI has answered, with `code`.
void StagedRequest::end_in_mpi(int code) {
  enter(code == MPI_SUCCESS ? Phase::arrived : Phase::delivery);
  if (code != MPI_SUCCESS) leave_to_the_mpi();  // what it has failed to move it may still have in its hands
  check(code, "MPI_Test");
  end_apart();
}

/// What is to end with an error is not asked for.
void StagedRequest::leave_asking_to(AskedTogether& together) {
  const std::lock_guard lock(together_mutex_);
  if (together_ != nullptr || !is_in_mpi() || has_failed() || request_ == MPI_REQUEST_NULL) return;
  const bool is_apart = persistent_ != MPI_REQUEST_NULL;
  if (is_persistent_ && !is_apart && !AskedTogether::takes_persistent) return;
  if (together.add(*this, request_)) together_ = &together;
}

/// Its delivery begins at once: the call may return for another request.
void StagedRequest::answered(MPI_Request request, int code, const MPI_Status& status) noexcept {
  {
    const std::lock_guard lock(together_mutex_);
    together_ = nullptr;
    is_to_be_cancelled_ = false;
    request_ = request;
    status_ = status;
    enter(Phase::arrived);  // a cancel comes too late
  }
  try {
    end_in_mpi(code);
    done();
  } catch (const std::exception&) {
    if (!failure_) failure_ = current_error();
  }
}

/// Whoever cancels from here on finds nobody who asks, and does it.
void StagedRequest::let_go() noexcept {
  {
    const std::lock_guard lock(together_mutex_);
    together_ = nullptr;
  }
  StagedRequest::cancel_if_wanted();
}

/// Whether this thread is to ask the MPI, which no call of another one does. Nobody else asks from here on: the array
/// would keep a request that may go.
bool StagedRequest::is_to_ask() {
  const std::lock_guard lock(together_mutex_);
  AskedTogether* const together = together_;
  if (together == nullptr) return true;
  if (!together->is_of_this_thread()) return false;
  leave_together_locked();
  return true;
}

void StagedRequest::leave_together() {
  const std::lock_guard lock(together_mutex_);
  leave_together_locked();
}

/// In an error handler that the MPI calls while it is asked, the array has what the MPI has left of the request.
void StagedRequest::leave_together_locked() {
  AskedTogether* const together = together_.exchange(nullptr);
  if (together == nullptr) return;
  const MPI_Request left = together->remove(*this);
  if (together->is_asking()) request_ = left;
}

/// This thread asks for nothing just now, or is in an error handler, and need not wait for what it does itself.
void StagedRequest::cancel_in_mpi() {
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(together_mutex_);
    AskedTogether* const together = together_;
    if (!is_in_mpi()) return;
    if (together != nullptr && !together->is_of_this_thread()) {
      is_to_be_cancelled_ = true;
      return together->cancel_some();
    }
    if (together != nullptr && together->is_asking()) leave_together_locked();
    request = request_;
  }
  if (request != MPI_REQUEST_NULL) check_raised(native::Cancel(&request), "MPI_Cancel");
}

/// The error handler hears of a failure.
void StagedRequest::cancel_if_wanted() noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(together_mutex_);
    if (std::exchange(is_to_be_cancelled_, false) && is_in_mpi()) request = request_;
  }
  if (request != MPI_REQUEST_NULL) native::Cancel(&request);
}

/// A call of another thread that asks for it is watched itself.
void StagedRequest::fail(const Error& error) {
  {
    const std::lock_guard lock(together_mutex_);
    AskedTogether* const together = together_;
    if (together != nullptr && !together->is_of_this_thread()) return;
    leave_together_locked();
  }
  failure_ = error;
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
  leave_together();
  const bool has_arrived = phase() == Phase::arrived;
  enter(Phase::inactive);
  place_.reset();
  if (has_arrived) refuse(status_);
  if (!was_in_mpi) return;
  if (request_ == MPI_REQUEST_NULL) return leave_to_the_mpi();  // what it has failed to move, as above
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
