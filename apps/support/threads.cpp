#include "apps/support/threads.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "apps/support/node.hpp"

namespace partita::apps {

int thread_count(MPI_Comm comm, int wanted) {
  const Node node = find_node(comm);
  if (wanted > 0) return wanted;
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return omp_get_max_threads();
  return std::max(1, std::min(node.my_cores, node.cores / node.ranks));
}

std::string oversubscription_note(MPI_Comm comm, int threads) {
  const Node node = find_node(comm);
  const int too_many = node.ranks * threads > node.cores ? 1 : 0;
  int anywhere = 0;
  MPI_Allreduce(&too_many, &anywhere, 1, MPI_INT, MPI_MAX, comm);
  if (anywhere == 0) return {};
  std::string note =
      fmt::format("note: {} ranks with {} {} each share {} {}, so the times below mean nothing", node.ranks, threads,
                  threads == 1 ? "thread" : "threads", node.cores, node.cores == 1 ? "core" : "cores");
  const bool sleeping = std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  if (threads > 1 && !sleeping) {
    note +=
        "; OpenMP's waiting threads keep cores busy, and OMP_WAIT_POLICY=passive in the environment makes them sleep";
  }
  return note + "\n";
}

}  // namespace partita::apps
