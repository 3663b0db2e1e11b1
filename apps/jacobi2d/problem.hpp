// The problem: temperatures held fixed along the rim of a square plate, and the field that the iteration starts from.
#pragma once

#include <vector>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/field.hpp"

namespace jacobi2d {

/// Temperatures lie between these two, in degrees Celsius.
inline constexpr double coldest = 0.0;
inline constexpr double hottest = 100.0;

/// Everything that the first field follows from. One rank computes it and the others receive its bits: exp may differ
/// between machines.
struct Problem {
  /// The fixed temperatures next to the cells of the four sides of the whole grid.
  std::vector<double> north, south;  ///< per column
  std::vector<double> west, east;    ///< per row
  /// This plate solved on a few cells, with its halo: field_in(coarse.data(), coarse_rows, coarse_columns).
  std::vector<double> coarse;
  int coarse_rows = 0, coarse_columns = 0;
};

/// A problem of the right sizes for a grid of rows x columns cells; what it holds is still to come.
Problem empty_problem(int rows, int columns);

/// Hot and warm spots on a cold rim. Takes some 10 ms for the coarse solution.
Problem make_problem(int rows, int columns);

/// Fills a field of `block` with the state before the first iteration: the coarse solution, interpolated, and the fixed
/// temperatures in those parts of the halo that lie on the rim. The halo towards other blocks gets what the neighbour's
/// cells get.
void fill(const Field& field, const Block& block, const Division& division, const Problem& problem);

}  // namespace jacobi2d
