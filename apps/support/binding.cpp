#include "apps/support/binding.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "apps/support/rank_texts.hpp"

namespace partita::apps {
namespace {

/// The lowest rank of this rank's node.
int first_of_node(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Bcast(&rank, 1, MPI_INT, 0, node);
  PMPI_Comm_free(&node);
  return rank;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t begin = 0; begin < cores.size();) {
    std::size_t end = begin + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", cores[begin]);
    if (end - begin > 1) text += fmt::format("-{}", cores[end - 1]);
    begin = end;
  }
  return text;
}

std::vector<RankPlace> gather_places(MPI_Comm comm, const std::string& gpu) {
  const std::vector<std::string> cores = gather_texts(comm, core_list(allowed_cores()));
  const std::vector<std::string> gpus = gather_texts(comm, gpu);
  const int first = first_of_node(comm);
  std::vector<int> firsts(cores.size());
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Gather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, 0, comm);
  std::vector<RankPlace> places;
  if (rank != 0) return places;
  std::vector<int> nodes;  // by their first ranks
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const auto known = std::find(nodes.begin(), nodes.end(), firsts[i]);
    const int node = static_cast<int>(known - nodes.begin());
    if (known == nodes.end()) nodes.push_back(firsts[i]);
    places.push_back({static_cast<int>(i), node, cores[i], gpus[i]});
  }
  return places;
}

}  // namespace partita::apps
