// The app cg: the method of conjugate gradients, its messages and sums in several ways.
#pragma once

namespace cg {

/// Runs the app; argv[0] is its name. MPI is initialised, and MPI_COMM_WORLD's ranks call it together. Returns the
/// process's exit code, the same on every rank: 0, 1 if a result is wrong, has not converged or cannot be written, 2
/// for bad options.
int command(int argc, char** argv);

}  // namespace cg
