#include "apps/support/node.hpp"

#include <sched.h>

namespace partita::apps {

Node find_node(MPI_Comm comm) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  Node node;
  node.my_cores = CPU_COUNT(&mine);

  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm shared = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared);
  cpu_set_t all;
  MPI_Allreduce(&mine, &all, static_cast<int>(sizeof mine), MPI_BYTE, MPI_BOR, shared);
  MPI_Allreduce(&rank, &node.first_rank, 1, MPI_INT, MPI_MIN, shared);
  MPI_Comm_size(shared, &node.ranks);
  MPI_Comm_rank(shared, &node.my_rank);
  MPI_Comm_free(&shared);
  node.cores = CPU_COUNT(&all);
  return node;
}

}  // namespace partita::apps
