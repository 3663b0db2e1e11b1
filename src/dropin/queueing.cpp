#include "dropin/queueing.hpp"

#include <string>

#include "dropin/native.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

namespace partita::dropin {
namespace {

/// The MPI has failed on a communicator of Partita's, whose handler is not the program's.
int raise_on(MPI_Comm comm, const char* call, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  int error_class = MPI_ERR_OTHER;
  native().Error_class(code, &error_class);
  native().Error_string(code, text, &length);
  return Partita_Raise(comm, error_class, (std::string(call) + ": " + text).c_str());
}

}  // namespace

/// Mirrors are made and filled at the call, so that its place in the program's stream is that of the call.
bool Queueing::finds_comm(MPI_Comm* on) {
  code_ = stage_.code();
  if (code_ == MPI_SUCCESS && handle_ == nullptr) code_ = refuse_null_pointer(name_, "request");
  if (code_ == MPI_SUCCESS && !peers_.is_wanted()) code_ = stage_.fetch();
  if (code_ == MPI_SUCCESS && !peers_.is_wanted() && stage_.is_on_host()) code_ = Partita_Comm_in_order(comm_, on);
  return code_ == MPI_SUCCESS;
}

/// A call that has failed is none: the program may make another in its place.
void Queueing::ends(int code) {
  code_ = code;
  if (code == MPI_SUCCESS) {
    peers_.count();
  } else {
    code_ = raise_on(comm_, name_, code);
  }
}

/// The placeholder first: a collective that is under way cannot be taken back.
int Queueing::reserves() {
  return reserve(&reserved_);
}

int Queueing::queue(const CallToQueue& call) {
  Partita_Request made = PARTITA_REQUEST_NULL;
  const Partita_Stage stage = stage_.take();
  const int code = Partita_Make_in_order(peers_.take(), stage, &call, comm_, &made);
  Partita_Stage_free(stage, 0);
  if (code != MPI_SUCCESS) {
    forget(&reserved_);
    return code;
  }
  stand_for(reserved_, made);
  *handle_ = reserved_;
  return MPI_SUCCESS;
}

}  // namespace partita::dropin
