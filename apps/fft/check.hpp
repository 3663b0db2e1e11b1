// Whether transforms are right.
#pragma once

#include <mpi.h>

#include <vector>

#include "apps/fft/problem.hpp"

namespace fft {

/// The largest difference at which a spectrum passes, by its largest number, and an input that has been transformed
/// there and back once. Each pair of transforms adds its own rounding, in random directions: after n of them sqrt(n)
/// times as much passes.
inline constexpr double tolerance = 1e-12;
double tolerance_after(int pairs);

/// Cells of the largest grid that rank 0 transforms alone.
inline constexpr std::int64_t largest_whole = std::int64_t{1} << 21;

/// How a spectrum is checked.
enum class Against {
  one_rank,    ///< by all of the transform that rank 0 does alone, with one three-dimensional plan
  definition,  ///< by a few frequencies, one of each rank's among them, summed over all cells as transforms are defined
};
/// `fftw`: whether there is somebody who transforms the whole grid.
Against check_of(const Extents& size, bool fftw);

/// The largest difference of this rank's `cells` of the spectrum, which have the axes of `box` in this order, from the
/// right ones, by the largest number of those; infinite where one is no number, or was not compared. Collective; the
/// same on every rank.
double spectrum_error(MPI_Comm comm, const Extents& size, Against against, const Box& input, const Box& box,
                      const std::array<int, 3>& order, const std::vector<Complex>& cells);

/// The largest difference of this rank's cells of the input, likewise.
double input_error(MPI_Comm comm, const Extents& size, const Box& box, const std::array<int, 3>& order,
                   const std::vector<Complex>& cells);

}  // namespace fft
