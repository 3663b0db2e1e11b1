#include "bench/two_nodes.hpp"

#include <partita/partita.h>

namespace partita::bench {

std::shared_ptr<const apps::TwoNodes> find_two_nodes(Job& job) {
  static std::weak_ptr<apps::TwoNodes> shared;
  if (auto existing = shared.lock()) return existing;
  auto nodes = std::make_shared<apps::TwoNodes>(job.comm);
  if (nodes->problem()) throw Failure("This benchmark {}.", *nodes->problem());
  check(Partita_Comm_register(nodes->within()), "Partita_Comm_register");
  check(Partita_Comm_register(nodes->across()), "Partita_Comm_register");
  if (apps::nodes_of_a_machine() > 1) {
    job.note(
        "both nodes are one machine (PARTITA_NODES): Partita and NCCL go their ways between nodes, the MPI its way in "
        "a machine, and no network is measured");
  }
  shared = nodes;
  job.shared.push_back(nodes);
  return nodes;
}

}  // namespace partita::bench
