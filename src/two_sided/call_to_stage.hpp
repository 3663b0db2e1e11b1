// A call of the MPI's on buffers in GPU memory, as the drop-in describes it.
#pragma once

#include <mpi.h>

namespace partita {

/// A call that makes a request: a collective, or a send with a receive.
struct CallToStage {
  const char* name;  ///< MPI_Iallreduce; lives as long as the request
  bool is_collective;
  bool is_persistent;
  /// Makes it, on the mirrors. Returns the MPI's code.
  int (*make)(void* context, MPI_Request* request);
  void* context;  ///< lives until the request is made
  /// The MPI gets a communicator of Partita's, on which errors return: whoever learns of one calls the handler of the
  /// program's.
  bool is_apart = false;
};

}  // namespace partita
