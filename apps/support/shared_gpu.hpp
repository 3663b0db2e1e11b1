// Whether ranks work on one GPU together.
#pragma once

#include <cuda_runtime_api.h>
#include <mpi.h>

namespace partita::apps {

/// Whether any two ranks of `comm` work on the same GPU; `mine` names that of this rank. The same answer on all ranks.
/// Collective.
bool ranks_share_a_gpu(MPI_Comm comm, const cudaUUID_t& mine);

}  // namespace partita::apps
