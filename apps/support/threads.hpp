// How many OpenMP threads a rank gets.
#pragma once

#include <mpi.h>

#include <string>

namespace partita::apps {

/// `wanted` if it is not 0, else OMP_NUM_THREADS if that is set, else the cores that the ranks of this node may use,
/// shared out evenly; at least 1. Collective over `comm`.
int thread_count(MPI_Comm comm, int wanted);

/// A sentence for the user if `threads` threads on every rank are more than the cores of a node: what is measured then
/// is how the system shares the cores; else empty. Collective over `comm`.
std::string oversubscription_note(MPI_Comm comm, int threads);

}  // namespace partita::apps
