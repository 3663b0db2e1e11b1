#include "two_sided/staged_call.hpp"

#include <fmt/format.h>

#include "two_sided/own_comms.hpp"

namespace partita {

StagedCall::~StagedCall() {
  if (is_in_mpi()) mirrors_.leave_to_the_mpi();
}

/// A call that has failed may have begun something, but not where it only makes a persistent request.
int StagedCall::call_mpi(MPI_Request* request) {
  const int code = call_.make(call_.context, request);
  if (code != MPI_SUCCESS && !persistent()) mirrors_.leave_to_the_mpi();
  return code;
}

void StagedCall::hear(int code) {
  if (call_.is_apart && !is_silent_) raise_on(*communicator(), code);
}

std::string StagedCall::explain() const {
  return fmt::format("{} on GPU memory {}", call_.name,
                     is_delivered() ? "is complete and its result is copied to the GPU" : "waits for the MPI");
}

}  // namespace partita
