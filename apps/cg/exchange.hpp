// The ways to tell the other ranks; each is a class of one file, and they share everything else.
#pragma once

#include <mpi.h>

#include <memory>
#include <partita/queue.hpp>

#include "apps/cg/iteration.hpp"

namespace cg {

/// The ranks that have the rows before and behind those of a rank; MPI_PROC_NULL at the rim.
struct Neighbours {
  int before = MPI_PROC_NULL, behind = MPI_PROC_NULL;
};

/// A message with rows of p travels up or down the grid.
inline constexpr int upward_tag = 0, downward_tag = 1;

/// Persistent messages and MPI_Allreduce of the MPI's, by its own functions past the drop-in; `vectors` lie in host
/// memory (mpi.cpp).
std::unique_ptr<Exchange> exchange_by_mpi(MPI_Comm comm, const Vectors& vectors, const Neighbours& neighbours);

/// Who does an enqueued allreduce on GPU memory (info key partita_driver).
enum class Sums {
  engine,   ///< the progress engine, between two steps of the stream
  kernels,  ///< kernels of the library's in the stream
};

/// Persistent messages and allreduces in `queue`, matched once; `vectors` lie where the queue runs (partita.cpp).
/// Collective, also where it ends.
std::unique_ptr<Exchange> exchange_in_queue(MPI_Comm comm, const Vectors& vectors, const Neighbours& neighbours,
                                            partita::queue queue, Sums sums);

}  // namespace cg
