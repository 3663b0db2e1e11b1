// The first communicator of Partita's own, made so that it disturbs nobody.
#pragma once

#include <mpi.h>

namespace partita {

/// A duplicate of `comm`, an intracommunicator. Collective over it, but unlike MPI_Comm_dup no collective operation on
/// `comm` for the MPI: programs that run in one job, of which one knows nothing of Partita, may be in one of their own
/// there, which must not meet ours. Where not all ranks come, says so after some seconds, and ends the process after
/// `timeout_s` (0: never), or those seconds where they are more. Errors on the duplicate return. Throws Error.
MPI_Comm private_duplicate_of(MPI_Comm comm, double timeout_s);

}  // namespace partita
