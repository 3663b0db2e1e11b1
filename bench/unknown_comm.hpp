// A communicator that Partita does not know.
#pragma once

#include <mpi.h>

#include "apps/support/own_mpi.hpp"
#include "bench/owned.hpp"

namespace partita::bench {

/// All ranks again; no call on it goes by peers. The drop-in stands behind the MPI's PMPI names, too. Collective.
inline OwnedComm unknown_duplicate() {
  OwnedComm own(MPI_COMM_NULL);
  check(PARTITA_OF_MPI(Comm_dup)(MPI_COMM_WORLD, own.out()), "MPI_Comm_dup");
  return own;
}

}  // namespace partita::bench
