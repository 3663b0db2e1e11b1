// Locks of windows (MPI-4, section 12.5.3) where only callers make progress for Partita. MPI_Win_lock has no
// nonblocking twin, and who holds the lock may wait for Partita in this rank. So ranks first take a lock of the
// drop-in's own, by trying and polling, and the MPI's only once nobody else has it. docs/design/dropin.md, "Progress".
#pragma once

#include <mpi.h>

namespace partita::dropin {

/// Makes the locks of `window`, whose ranks are those of `comm`; none where that is MPI_COMM_NULL. Collective.
int open_locks(MPI_Win window, MPI_Comm comm);
/// Ends them. Collective.
int close_locks(MPI_Win window);

/// Takes the lock of rank `target` as MPI_Win_lock does, polling. At once where `window` has no locks.
int take_lock(MPI_Win window, int type, int target);
/// Gives it back; after the MPI's.
int give_lock(MPI_Win window, int target);
/// Take and give back the shared locks of all ranks.
int take_all_locks(MPI_Win window);
int give_all_locks(MPI_Win window);

}  // namespace partita::dropin
