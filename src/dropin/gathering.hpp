// Where only callers make progress for Partita, a blocking call must not wait in the MPI for a rank that still waits
// for Partita. Calls without a nonblocking twin therefore begin with a meeting, in which each rank polls, of all that
// the call waits for. docs/design/dropin.md, "Progress".
#pragma once

#include <mpi.h>

#include <cstddef>

namespace partita::dropin {

/// Opens and closes what meetings need: a communicator of the drop-in's own. Collective over MPI_COMM_WORLD.
int open_meetings();
void close_meetings();

/// Whether all processes of `comm` belong to this MPI_COMM_WORLD: then they all run the drop-in, have decided alike how
/// progress is made, and come to the same answer here. Local; remembered with the communicator.
bool all_are_ours(MPI_Comm comm);

/// Returns when all ranks of `comm` (of an intercommunicator: of both groups) are in this call. At once where a thread
/// makes progress, where `comm` is MPI_COMM_NULL, and where others than ours would have to take part.
int gather_all(MPI_Comm comm);

/// Gathers the processes of `group` likewise; no communicator of them need exist. Meetings with different `tag`s may go
/// on at once.
int gather_group(MPI_Group group, int tag);

/// Gathers the leaders of MPI_Intercomm_create likewise: this process and `peer` of `peer_comm`.
int meet_leader(MPI_Comm peer_comm, int peer, int tag);

/// Remembers with an object that lives beyond its communicator, a window or a file, a communicator on which its ranks
/// can gather: a duplicate of `comm`, or MPI_COMM_NULL where they need not. Collective.
int keep_for(const void* handle, std::size_t handle_bytes, MPI_Comm comm);
/// The communicator kept for the object; MPI_COMM_NULL where none was.
MPI_Comm kept_for(const void* handle, std::size_t handle_bytes);
/// Takes it away, for the caller to free.
MPI_Comm take_kept(const void* handle, std::size_t handle_bytes);

/// Sends a word to each process of `group`; does not wait. All of them are in `comm`, which was kept for an object:
/// nothing is done where that is MPI_COMM_NULL.
int tell_group(MPI_Comm comm, MPI_Group group);
/// Waits for a word from each, polling.
int hear_group(MPI_Comm comm, MPI_Group group);

}  // namespace partita::dropin
