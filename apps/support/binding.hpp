// Where the ranks of a measurement run.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace partita::apps {

struct RankPlace {
  int rank = 0;
  int node = 0;       ///< counted from 0 in the order of the ranks
  std::string cores;  ///< that the rank may run on: "0-3,8"
  std::string gpu;    ///< PCI bus id; empty where none is used
};

/// The cores that this process may run on, ascending; empty where the system does not tell.
std::vector<int> allowed_cores();

/// {0, 1, 2, 3, 8} is "0-3,8", as Linux and its tools write sets of cores. `cores` ascends.
std::string core_list(const std::vector<int>& cores);

/// The places of all ranks of `comm`, on rank 0; empty elsewhere. `gpu` is this rank's. Collective.
std::vector<RankPlace> gather_places(MPI_Comm comm, const std::string& gpu);

}  // namespace partita::apps
