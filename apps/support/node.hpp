// The node that a rank runs on.
#pragma once

#include <mpi.h>

namespace partita::apps {

struct Node {
  int first_rank = 0;  ///< the lowest rank of `comm` on this node
  int ranks = 1;
  int my_rank = 0;   ///< among those of this node
  int cores = 1;     ///< that any of its ranks may run on
  int my_cores = 1;  ///< that this rank may run on
};

/// This rank's node. Collective over `comm`.
Node find_node(MPI_Comm comm);

}  // namespace partita::apps
