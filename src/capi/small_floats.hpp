// The datatypes of 16-bit floating-point numbers.
#pragma once

#include <mpi.h>

#include "collective/reduction.hpp"

namespace partita::capi {

/// Makes Partita_FLOAT16 and Partita_BFLOAT16. Throws Error.
void make_small_floats();
/// While MPI runs.
void free_small_floats();

/// What `datatype` is of these two.
collective::SmallFloat small_float_of(MPI_Datatype datatype);

}  // namespace partita::capi
