// Which predefined operations of the MPI go with which datatypes (MPI-4, section 6.9.2).
#pragma once

#include <mpi.h>

namespace partita::capi {

/// Throws Error unless `op` can reduce elements of `datatype`: an operation of the program takes any, a predefined one
/// those that the standard names, and Partita's own where they are numbers. Returns whether it is predefined.
bool check_operator(MPI_Op op, MPI_Datatype datatype);

}  // namespace partita::capi
