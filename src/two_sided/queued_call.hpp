// A nonblocking collective, as the MPI makes it where its ranks do not by peer memory.
#pragma once

#include <mpi.h>

#include "two_sided/host_mirrors.hpp"

namespace partita {

/// Keeps what the program may free before the call is complete: datatypes and operations. One thread at a time.
class QueuedCall {
 public:
  QueuedCall() = default;
  virtual ~QueuedCall() = default;
  QueuedCall(const QueuedCall&) = delete;
  QueuedCall& operator=(const QueuedCall&) = delete;

  /// Puts mirrors in the place of its buffers in GPU memory. `comm` has the ranks of the program's communicator. Throws
  /// Error.
  virtual void stage(MPI_Comm comm, HostMirrors& mirrors) = 0;
  /// Makes it there. Returns the MPI's code.
  virtual int make(MPI_Comm comm, MPI_Request* request) = 0;
};

}  // namespace partita
