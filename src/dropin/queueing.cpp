#include "dropin/queueing.hpp"

#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

namespace partita::dropin {

/// Where the MPI cannot make it yet its mirrors are filled now, so that its place in the program's stream is that of
/// the call.
bool Queueing::finds_comm(MPI_Comm* on) {
  code_ = stage_.code();
  if (code_ == MPI_SUCCESS && handle_ == nullptr) code_ = refuse_null_pointer(name_, "request");
  if (code_ != MPI_SUCCESS || peers_.is_wanted()) return code_ == MPI_SUCCESS;
  code_ = Partita_Comm_in_order(comm_, on);
  if (code_ == MPI_SUCCESS && *on == MPI_COMM_NULL) code_ = stage_.fetch();
  return code_ == MPI_SUCCESS;
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
