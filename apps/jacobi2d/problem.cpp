#include "apps/jacobi2d/problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "apps/jacobi2d/stencil.hpp"

namespace jacobi2d {
namespace {

/// A warm place on the rim. Places count once around it, clockwise from the north-west corner, a side being 1 long.
struct Spot {
  double place, width, temperature;
};

constexpr double rim_length = 4.0;
constexpr std::array spots{
    Spot{0.26, 0.070, 78.0},  Spot{0.74, 0.050, 60.0}, Spot{1.30, 0.060, 72.0}, Spot{1.62, 0.035, 48.0},
    Spot{2.42, 0.270, 100.0}, Spot{3.08, 0.110, 90.0}, Spot{3.52, 0.040, 56.0}, Spot{3.74, 0.035, 40.0},
};

double distance_around(double a, double b) {
  const double straight = std::abs(a - b);
  return std::min(straight, rim_length - straight);
}

double rim_temperature(double place) {
  double temperature = 0.0;
  for (const Spot& spot : spots) {
    const double widths = distance_around(place, spot.place) / spot.width;
    temperature = std::max(temperature, spot.temperature * std::exp(-0.5 * widths * widths));
  }
  return std::clamp(temperature, coldest, hottest);
}

/// The middle of cell `index` of `count`, on a side of length 1.
double middle_of(int index, int count) {
  return (index + 0.5) / count;
}

void set_rim(Problem& problem, int rows, int columns) {
  for (int column = 0; column < columns; ++column) {
    const auto i = static_cast<std::size_t>(column);
    problem.north[i] = rim_temperature(middle_of(column, columns));
    problem.south[i] = rim_temperature(3.0 - middle_of(column, columns));
  }
  for (int row = 0; row < rows; ++row) {
    const auto i = static_cast<std::size_t>(row);
    problem.east[i] = rim_temperature(1.0 + middle_of(row, rows));
    problem.west[i] = rim_temperature(4.0 - middle_of(row, rows));
  }
}

/// The coarse solution at a cell of the whole grid, from the four coarse cells around its middle. They may belong to
/// the coarse halo, which is the rim.
double interpolate(const Problem& problem, const Division& division, int row, int column) {
  double* memory = const_cast<double*>(problem.coarse.data());
  const Field coarse = field_in(memory, problem.coarse_rows, problem.coarse_columns);
  const double y = middle_of(row, division.rows) * coarse.rows + 0.5;
  const double x = middle_of(column, division.columns) * coarse.columns + 0.5;
  const int top = static_cast<int>(y), left = static_cast<int>(x);
  const double down = y - top, across = x - left;
  return (1.0 - down) * ((1.0 - across) * coarse.at(top, left) + across * coarse.at(top, left + 1)) +
         down * ((1.0 - across) * coarse.at(top + 1, left) + across * coarse.at(top + 1, left + 1));
}

/// The temperature at the start; rows run from -1 to division.rows, columns likewise, the ends being the rim.
double starting_temperature(const Problem& problem, const Division& division, int row, int column) {
  const auto along_row = static_cast<std::size_t>(std::clamp(column, 0, division.columns - 1));
  const auto along_column = static_cast<std::size_t>(std::clamp(row, 0, division.rows - 1));
  if (row < 0) return problem.north[along_row];
  if (row >= division.rows) return problem.south[along_row];
  if (column < 0) return problem.west[along_column];
  if (column >= division.columns) return problem.east[along_column];
  return interpolate(problem, division, row, column);
}

/// Solves the plate on the coarse cells, by the same method but on this thread alone.
void solve_coarse(Problem& problem) {
  constexpr double tolerance = 1e-4;
  constexpr int check_every = 100, most_iterations = 20000;
  const int rows = problem.coarse_rows, columns = problem.coarse_columns;
  const Division division{rows, columns, 1, 1};
  Problem rim = empty_problem(rows, columns);
  set_rim(rim, rows, columns);

  std::vector<double> other(problem.coarse.size());
  Field from = field_in(problem.coarse.data(), rows, columns);
  Field to = field_in(other.data(), rows, columns);
  fill(from, {0, 0, rows, columns}, division, rim);
  fill(to, {0, 0, rows, columns}, division, rim);
  // An even number of iterations ends in the problem's own memory.
  for (int iteration = 1; iteration <= most_iterations; ++iteration) {
    const bool check = iteration % check_every == 0;
    const double change = relax(from, to, all_cells(rows, columns), check ? Measure::change : Measure::nothing);
    std::swap(from, to);
    if (check && change <= tolerance) return;
  }
}

int coarse_cells(int cells) {
  constexpr int fewest = 2, most = 64, cells_each = 8;
  return std::clamp(cells / cells_each, fewest, most);
}

}  // namespace

Problem empty_problem(int rows, int columns) {
  Problem problem;
  problem.north.resize(static_cast<std::size_t>(columns));
  problem.south.resize(static_cast<std::size_t>(columns));
  problem.west.resize(static_cast<std::size_t>(rows));
  problem.east.resize(static_cast<std::size_t>(rows));
  problem.coarse_rows = coarse_cells(rows);
  problem.coarse_columns = coarse_cells(columns);
  problem.coarse.resize(static_cast<std::size_t>(size_of(problem.coarse_rows, problem.coarse_columns)));
  return problem;
}

Problem make_problem(int rows, int columns) {
  Problem problem = empty_problem(rows, columns);
  set_rim(problem, rows, columns);
  solve_coarse(problem);
  return problem;
}

void fill(const Field& field, const Block& block, const Division& division, const Problem& problem) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row <= field.rows + 1; ++row) {
    for (int column = 0; column <= field.columns + 1; ++column) {
      field.at(row, column) =
          starting_temperature(problem, division, block.first_row + row - 1, block.first_column + column - 1);
    }
  }
}

}  // namespace jacobi2d
