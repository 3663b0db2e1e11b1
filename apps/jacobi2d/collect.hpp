// Rank 0 takes what the ranks computed and decides about it for all.
#pragma once

#include <mpi.h>

#include <vector>

#include "apps/jacobi2d/plate.hpp"

namespace jacobi2d {

/// The whole grid's cells of `field`, row by row without halo, on rank 0; empty elsewhere. Collective.
std::vector<double> gather(const Plate& plate, const Field& field);

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

}  // namespace jacobi2d
