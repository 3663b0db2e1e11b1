// The app jacobi2d: the same solver with the halo exchanged by plain MPI and by partitioned communication.
#pragma once

namespace jacobi2d {

/// Runs the app; argv[0] is its name. MPI is initialised, and MPI_COMM_WORLD's ranks call it together. Returns the
/// process's exit code, the same on every rank: 0, 1 if a result is wrong or cannot be written, 2 for bad options.
int command(int argc, char** argv);

}  // namespace jacobi2d
