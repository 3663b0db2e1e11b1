// Words that each rank has of its own.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace partita::apps {

/// The `text` of every rank, on rank 0; elsewhere as many empty ones. By the MPI's own functions. Collective.
std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& text);

}  // namespace partita::apps
