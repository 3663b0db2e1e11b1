// MPI_Request values as keys of tables.
#pragma once

#include <mpi.h>

#include <cstring>

#include "dropin/request_table.hpp"

namespace partita::dropin {

/// An MPI_Request is an integer in some MPIs and a pointer in others.
inline RequestTable::Key key_of(MPI_Request handle) {
  static_assert(sizeof handle <= sizeof(RequestTable::Key));
  RequestTable::Key key = 0;
  std::memcpy(&key, &handle, sizeof handle);
  return key;
}

inline MPI_Request handle_of(RequestTable::Key key) {
  MPI_Request handle = MPI_REQUEST_NULL;
  std::memcpy(&handle, &key, sizeof handle);
  return handle;
}

}  // namespace partita::dropin
