// MPI handles that are freed with their owner.
#pragma once

#include <mpi.h>

#include <utility>

#include "bench/failure.hpp"

namespace partita::bench {

/// Holds a handle, or `null`. Moves, never copies.
template <class Handle, int (*free_handle)(Handle*)>
class Owned {
 public:
  explicit Owned(Handle null) : handle_(null), null_(null) {}
  ~Owned() {
    if (handle_ != null_) free_handle(&handle_);
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, other.null_)), null_(other.null_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  Handle get() const { return handle_; }
  /// For the call that makes the handle.
  Handle* out() { return &handle_; }

 private:
  Handle handle_;
  Handle null_;
};

using OwnedInfo = Owned<MPI_Info, PMPI_Info_free>;
using OwnedComm = Owned<MPI_Comm, PMPI_Comm_free>;

/// A duplicate of `comm` that carries nothing else. Past the drop-in. Collective.
inline OwnedComm duplicate(MPI_Comm comm) {
  OwnedComm own(MPI_COMM_NULL);
  check(PMPI_Comm_dup(comm, own.out()), "MPI_Comm_dup");
  return own;
}

}  // namespace partita::bench
