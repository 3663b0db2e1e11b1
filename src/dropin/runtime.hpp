// What the drop-in knows between MPI_Init and MPI_Finalize.
#pragma once

#include <mpi.h>

#include "dropin/progress.hpp"

namespace partita::dropin {

/// Starts Partita over MPI_COMM_WORLD; called inside MPI_Init and MPI_Init_thread. Collective. Returns an MPI error
/// code.
int start_runtime();
/// Ends it; called inside MPI_Finalize. Collective. Requests that are alive go; active ones that are not complete are
/// an error.
int stop_runtime();

/// The status of a request that is null or inactive (MPI-4, section 3.7.3).
const MPI_Status& empty_status();

}  // namespace partita::dropin
