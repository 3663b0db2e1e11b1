#include "collective/problem.hpp"

#include <array>
#include <string_view>

namespace partita::collective {

const char* persistent_name_of(Kind kind) {
  static constexpr std::array<const char*, kind_count> names = {
      "persistent_bcast",
      "persistent_gather",
      "persistent_gatherv",
      "persistent_scatter",
      "persistent_scatterv",
      "persistent_allgather",
      "persistent_allgatherv",
      "persistent_alltoall",
      "persistent_alltoallv",
      "persistent_alltoallw",
      "persistent_reduce",
      "persistent_allreduce",
      "persistent_reduce_scatter",
      "persistent_reduce_scatter_block",
      "persistent_scan",
      "persistent_exscan",
      "persistent_neighbor_allgather",
      "persistent_neighbor_allgatherv",
      "persistent_neighbor_alltoall",
      "persistent_neighbor_alltoallv",
      "persistent_neighbor_alltoallw",
      "persistent_barrier",
  };
  return names[static_cast<std::size_t>(kind)];
}

const char* name_of(Kind kind) {
  return persistent_name_of(kind) + std::string_view("persistent_").size();
}

}  // namespace partita::collective
