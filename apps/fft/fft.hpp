// The app fft: Fourier transforms of a three-dimensional grid, whose cells the ranks exchange in several ways.
#pragma once

namespace fft {

/// Runs the app; argv[0] is its name. MPI is initialised, and MPI_COMM_WORLD's ranks call it together. Returns the
/// process's exit code, the same on every rank: 0, 1 if a result is wrong or cannot be written, 2 for bad options.
int command(int argc, char** argv);

}  // namespace fft
