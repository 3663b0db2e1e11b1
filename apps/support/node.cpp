#include "apps/support/node.hpp"

#include <vector>

#include "core/cores.hpp"

namespace partita::apps {

Node find_node(MPI_Comm comm) {
  const CoreShare mine = own_core_share();
  Node node;
  node.my_cores = cores_together({&mine, 1});

  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm shared = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared);
  MPI_Allreduce(&rank, &node.first_rank, 1, MPI_INT, MPI_MIN, shared);
  MPI_Comm_size(shared, &node.ranks);
  MPI_Comm_rank(shared, &node.my_rank);
  std::vector<CoreShare> shares(static_cast<std::size_t>(node.ranks));
  const int size_bytes = static_cast<int>(sizeof mine);
  MPI_Allgather(&mine, size_bytes, MPI_BYTE, shares.data(), size_bytes, MPI_BYTE, shared);
  MPI_Comm_free(&shared);
  node.cores = cores_together(shares);
  return node;
}

}  // namespace partita::apps
