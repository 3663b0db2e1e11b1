// Whether there is memory for a run, asked before it.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace partita::apps {

/// 0 if the system lets every rank have as many bytes as it asks for, else the most that it refuses one. Takes none of
/// them. Collective; the same on every rank.
std::int64_t bytes_refused(std::int64_t bytes, MPI_Comm comm);

}  // namespace partita::apps
