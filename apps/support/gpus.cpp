#include "apps/support/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "apps/support/cuda_check.hpp"
#include "apps/support/node.hpp"
#include "apps/support/rank_values.hpp"

namespace partita::apps {

std::optional<std::string> choose_gpu(MPI_Comm comm) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (on_any_rank(comm, code != cudaSuccess || devices == 0)) {
    return fmt::format("--device gpu needs a GPU on every node, but CUDA says: {}",
                       code != cudaSuccess ? cudaGetErrorString(code) : "another rank has none");
  }
  PARTITA_APPS_CUDA(cudaSetDevice(find_node(comm).my_rank % devices));
  return std::nullopt;
}

cudaDeviceProp properties_of_current_gpu() {
  int device = 0;
  cudaDeviceProp properties{};
  PARTITA_APPS_CUDA(cudaGetDevice(&device));
  PARTITA_APPS_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

int most_ranks_on_a_gpu(MPI_Comm comm, const cudaUUID_t& mine) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  std::vector<cudaUUID_t> all(static_cast<std::size_t>(ranks));
  constexpr int bytes = sizeof(cudaUUID_t);
  MPI_Allgather(&mine, bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, comm);
  std::ptrdiff_t most = 0;
  for (const cudaUUID_t& gpu : all) {
    most = std::max(most, std::count_if(all.begin(), all.end(), [&](const cudaUUID_t& other) {
                      return std::memcmp(&gpu, &other, bytes) == 0;
                    }));
  }
  return static_cast<int>(most);
}

bool ranks_share_a_gpu(MPI_Comm comm, const cudaUUID_t& mine) {
  return most_ranks_on_a_gpu(comm, mine) > 1;
}

}  // namespace partita::apps
