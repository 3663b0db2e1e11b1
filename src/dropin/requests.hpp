// Partita requests as MPI_Request values.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include "dropin/request_key.hpp"
#include "dropin/request_table.hpp"

namespace partita::dropin {

namespace internal {
/// Never destroyed: the MPI may be called while the process exits.
union RequestTableStorage {
  constexpr RequestTableStorage() noexcept : table() {}
  ~RequestTableStorage() {}
  RequestTable table;
};
inline constinit RequestTableStorage table_storage;
}  // namespace internal

inline RequestTable& request_table() {
  return internal::table_storage.table;
}

/// The Partita request that `handle` stands for, or PARTITA_REQUEST_NULL. Any thread; takes no lock.
inline Partita_Request ours(MPI_Request handle) {
  if (request_table().empty() || handle == MPI_REQUEST_NULL) return PARTITA_REQUEST_NULL;
  return request_table().find(key_of(handle));
}

/// As above. `handle` may be a null pointer, which is left for the MPI to complain about.
inline Partita_Request ours(const MPI_Request* handle) {
  return request_table().empty() || handle == nullptr ? PARTITA_REQUEST_NULL : ours(*handle);
}

int free_placeholder(MPI_Request* placeholder);

/// Makes and frees the communicator of the next one. Local.
int open_silent_comm();
void close_silent_comm();
/// Lets the MPI take the steps that wait to be taken, as any look at a request of its own would.
void make_mpi_progress();

/// Makes a genuine MPI_Request value that stands for no request yet: a placeholder, a generalized request that is not
/// complete. Returns an MPI error code.
int reserve(MPI_Request* handle);
/// A reserved value stands for `request` from now on.
void stand_for(MPI_Request handle, Partita_Request request);

/// Gives `request` such a value. Returns an MPI error code; the request is freed if there is no placeholder for it.
int adopt(Partita_Request request, MPI_Request* handle);

/// The request behind `*handle` is gone: sets it to MPI_REQUEST_NULL.
int forget(MPI_Request* handle);

/// After an error in a call that completes requests: a nonblocking one that has failed goes, as the MPI's own do.
void end_if_spent(MPI_Request* handle);

/// Frees the request behind `*handle` and sets it to MPI_REQUEST_NULL. An active request is an error and stays.
int release(Partita_Request request, MPI_Request* handle);

}  // namespace partita::dropin
