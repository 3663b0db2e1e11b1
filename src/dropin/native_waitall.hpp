// MPI_Waitall of the MPI without a defect that some have at the thread level which the drop-in asks for.
#pragma once

#include <mpi.h>

namespace partita::dropin {

/// The MPI's own MPI_Waitall: all requests are the MPI's, null or inactive. Open MPI before 5.0 spins in it for ever
/// where a request has failed before the call and the thread level is MPI_THREAD_MULTIPLE; there this does the same by
/// means of MPI_Waitsome, which has no such defect.
int native_waitall(int count, MPI_Request requests[], MPI_Status statuses[]);

}  // namespace partita::dropin
