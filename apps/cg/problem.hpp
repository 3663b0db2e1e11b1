// The system of equations: Poisson's equation on a grid, with a solution that is known.
#pragma once

namespace cg {

/// -Δu = f on the unit square and u = 0 on its rim, by the five-point formula at rows x columns inner points: in row
/// i of the system stand four times u at point i, less u at its neighbours, and f there by the grid's spacing squared.
struct Problem {
  int rows = 0, columns = 0;
};

/// The solution of the system at an inner point, which are counted from 0 on: u(x, y) = x (1 - x) y (1 - y) e^(x + 2y).
double solution_at(const Problem& problem, int row, int column);

/// What stands on the right-hand side at an inner point: the matrix times that solution. So the grid's own error plays
/// no part in how far a solver comes.
double right_hand_side_at(const Problem& problem, int row, int column);

}  // namespace cg
