#include "apps/jacobi2d/threads.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace jacobi2d {
namespace {

/// The ranks of this node and the cores that they may run on.
struct Node {
  int ranks = 1;
  int cores = 1;     ///< of all its ranks together
  int my_cores = 1;  ///< of this rank
};

Node find_node(MPI_Comm comm) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);

  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  cpu_set_t all;
  MPI_Allreduce(&mine, &all, static_cast<int>(sizeof mine), MPI_BYTE, MPI_BOR, node);
  int ranks = 1;
  MPI_Comm_size(node, &ranks);
  MPI_Comm_free(&node);
  return {ranks, CPU_COUNT(&all), CPU_COUNT(&mine)};
}

}  // namespace

int thread_count(MPI_Comm comm, int wanted) {
  const Node node = find_node(comm);
  if (wanted > 0) return wanted;
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
  return std::max(1, std::min(node.my_cores, node.cores / node.ranks));
}

std::string oversubscription_note(MPI_Comm comm, int threads) {
  const Node node = find_node(comm);
  const int too_many = node.ranks * threads > node.cores && threads > 1 ? 1 : 0;
  int anywhere = 0;
  MPI_Allreduce(&too_many, &anywhere, 1, MPI_INT, MPI_MAX, comm);
  if (anywhere == 0 || std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return {};
  return fmt::format(
      "note: the {} ranks of a node with {} threads each have {} cores, and OpenMP's waiting threads keep cores busy; "
      "OMP_WAIT_POLICY=passive in the environment makes them sleep\n",
      node.ranks, threads, node.cores);
}

}  // namespace jacobi2d
