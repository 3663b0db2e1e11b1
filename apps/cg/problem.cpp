#include "apps/cg/problem.hpp"

#include <cmath>

namespace cg {

double solution_at(const Problem& problem, int row, int column) {
  const double x = (column + 1.0) / (problem.columns + 1.0);
  const double y = (row + 1.0) / (problem.rows + 1.0);
  return x * (1 - x) * y * (1 - y) * std::exp(x + 2 * y);
}

double right_hand_side_at(const Problem& problem, int row, int column) {
  const auto u = [&](int at_row, int at_column) {
    const bool inside = at_row >= 0 && at_row < problem.rows && at_column >= 0 && at_column < problem.columns;
    return inside ? solution_at(problem, at_row, at_column) : 0.0;
  };
  return 4 * u(row, column) - u(row - 1, column) - u(row + 1, column) - u(row, column - 1) - u(row, column + 1);
}

}  // namespace cg
