// The node that a rank runs on.
#pragma once

#include <mpi.h>

namespace partita::apps {

struct Node {
  int first_rank = 0;  ///< the lowest rank of `comm` on this node
  int ranks = 1;
  int my_rank = 0;   ///< among those of this node
  int cores = 1;     ///< that its ranks have together, by their masks and by the quotas of their control groups
  int my_cores = 1;  ///< that this rank would have alone
};

/// This rank's node. Collective over `comm`.
Node find_node(MPI_Comm comm);

}  // namespace partita::apps
