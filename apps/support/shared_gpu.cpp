#include "apps/support/shared_gpu.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace partita::apps {

bool ranks_share_a_gpu(MPI_Comm comm, const cudaUUID_t& mine) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  std::vector<cudaUUID_t> all(static_cast<std::size_t>(ranks));
  constexpr int bytes = sizeof(cudaUUID_t);
  MPI_Allgather(&mine, bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, comm);
  const auto before = [](const cudaUUID_t& a, const cudaUUID_t& b) { return std::memcmp(&a, &b, bytes) < 0; };
  const auto equal = [](const cudaUUID_t& a, const cudaUUID_t& b) { return std::memcmp(&a, &b, bytes) == 0; };
  std::sort(all.begin(), all.end(), before);
  return std::adjacent_find(all.begin(), all.end(), equal) != all.end();
}

}  // namespace partita::apps
