// The GPUs that the ranks of a job work on.
#pragma once

#include <cuda_runtime_api.h>
#include <mpi.h>

#include <optional>
#include <string>

namespace partita::apps {

/// Makes a GPU of this rank's node the current device, in turns over the ranks of the node. What stands in the way, as
/// a sentence, the same on every rank; nothing if every rank has a GPU. Collective.
std::optional<std::string> choose_gpu(MPI_Comm comm);

/// What CUDA says of the current device.
cudaDeviceProp properties_of_current_gpu();

/// How many ranks of `comm` work on the GPU on which most of them do; `mine` names that of this rank. The same answer
/// on all ranks. Collective.
int most_ranks_on_a_gpu(MPI_Comm comm, const cudaUUID_t& mine);

/// Whether any two ranks do. Collective.
bool ranks_share_a_gpu(MPI_Comm comm, const cudaUUID_t& mine);

}  // namespace partita::apps
