// The app bce: binary cross-entropy, trained data-parallel (docs/guide/bce.md).
#pragma once

namespace bce {

/// Collective over MPI_COMM_WORLD, between MPI_Init and MPI_Finalize; the exit code, the same on every rank.
int command(int argc, char** argv);

}  // namespace bce
