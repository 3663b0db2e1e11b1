// What a rank works on. Without MPI, so that nvcc compiles it, too.
#pragma once

#include <cstddef>

namespace cg {

/// The two dot products of an iteration.
enum class Product {
  direction,  ///< p · A p
  residual,   ///< r · r
};

/// The numbers of an iteration, beside the vectors.
struct Numbers {
  double own[2];  ///< by Product: over this rank's rows
  double all[2];  ///< over those of all ranks
  double before;  ///< the residual's of all ranks, before this iteration
};

/// Vectors of this rank's rows of the grid, row by row, in host memory or that of its GPU.
struct Vectors {
  int rows = 0, columns = 0;
  double* x = nullptr;  ///< the solution so far
  double* r = nullptr;  ///< what is left of the right-hand side
  double* p = nullptr;  ///< the direction: with a row of the neighbours' before its own and one behind
  double* q = nullptr;  ///< A p
  Numbers* numbers = nullptr;

  std::ptrdiff_t points() const { return static_cast<std::ptrdiff_t>(rows) * columns; }
  /// The rows of p, as messages go: own ones, and the neighbours' on either side.
  double* row_before() const { return p; }
  double* first_row() const { return p + columns; }
  double* last_row() const { return p + points(); }
  double* row_behind() const { return last_row() + columns; }
};

/// Doubles that x, r, p and q take together.
constexpr std::ptrdiff_t size_of(int rows, int columns) {
  return (4 * static_cast<std::ptrdiff_t>(rows) + 2) * columns;
}

/// The view of `memory`, which holds size_of(rows, columns) doubles, and of `numbers`.
inline Vectors vectors_in(double* memory, Numbers* numbers, int rows, int columns) {
  const std::ptrdiff_t points = static_cast<std::ptrdiff_t>(rows) * columns;
  return {rows, columns, memory, memory + points, memory + 2 * points, memory + 3 * points + 2 * columns, numbers};
}

}  // namespace cg
