// What the program has promised the MPI about its messages.
#pragma once

#include <mpi.h>

namespace partita {

/// Whether messages on `comm` may be of another length than the program's, and may be looked for with wildcards (MPI-4,
/// section 7.4.4: the assertions of its info). Asks the MPI.
bool takes_offers_on(MPI_Comm comm);

}  // namespace partita
