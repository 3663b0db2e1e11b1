// Rank 0 takes what the ranks computed and decides about it for all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <stdexcept>

#include "apps/support/decomposition.hpp"

namespace partita::apps {

/// Collects the cells of all blocks in the order of the whole grid, row by row, at `whole` on rank 0. `cells` is the
/// first cell of this rank's block, whose rows lie `stride` cells apart. Collective over `comm`, whose ranks are those
/// of `division`.
void gather_blocks(MPI_Comm comm, const Division& division, const void* cells, std::ptrdiff_t stride, MPI_Datatype cell,
                   void* whole);

/// Waits for `request` without keeping a core busy. For small messages: it looks at the request once a millisecond.
void wait_asleep(MPI_Request& request);

/// Gives what `decide` returns on rank 0 to all ranks. The others sleep meanwhile and leave the machine to rank 0.
/// Collective.
template <class Decide>
bool decide_on_rank_0(MPI_Comm comm, Decide&& decide) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  int verdict = rank == 0 && decide() ? 1 : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&verdict, 1, MPI_INT, 0, comm, &request);
  wait_asleep(request);
  return verdict != 0;
}

/// Calls `write` on rank 0; false on every rank where it throws std::runtime_error, whose sentence is told by the app
/// `name`. Collective.
template <class Write>
bool write_on_rank_0(MPI_Comm comm, const char* name, Write&& write) {
  return decide_on_rank_0(comm, [&] {
    try {
      write();
      return true;
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "%s: %s\n", name, error.what());
      return false;
    }
  });
}

}  // namespace partita::apps
