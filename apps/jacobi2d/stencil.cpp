#include "apps/jacobi2d/stencil.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>

namespace jacobi2d {
namespace {

/// Cells of one chunk: 64 KiB of doubles, so that a chunk of both fields stays in a second-level cache.
constexpr int chunk_cells = 8192;

void relax_row(const double* __restrict above, const double* __restrict here, const double* __restrict below,
               double* __restrict to, int first, int last) {
#pragma omp simd
  for (int column = first; column <= last; ++column) {
    to[column] = 0.25 * ((above[column] + below[column]) + (here[column - 1] + here[column + 1]));
  }
}

double largest_change_in_row(const double* __restrict from, const double* __restrict to, int first, int last) {
  double largest = 0.0;
#pragma omp simd reduction(max : largest)
  for (int column = first; column <= last; ++column) {
    largest = std::max(largest, std::abs(to[column] - from[column]));
  }
  return largest;
}

}  // namespace

double relax(const Field& from, const Field& to, const Cells& cells, Measure measure) {
  double largest = 0.0;
  for (int row = cells.first_row; row <= cells.last_row; ++row) {
    relax_row(from.row(row - 1), from.row(row), from.row(row + 1), to.row(row), cells.first_column, cells.last_column);
    if (measure == Measure::change) {
      largest =
          std::max(largest, largest_change_in_row(from.row(row), to.row(row), cells.first_column, cells.last_column));
    }
  }
  return largest;
}

Cells share_of(const Cells& cells, int thread, int threads) {
  const int rows = std::max(0, cells.last_row - cells.first_row + 1);
  const int rows_each = rows / threads;
  const int rows_left = rows % threads;
  Cells share = cells;
  share.first_row = cells.first_row + thread * rows_each + std::min(thread, rows_left);
  share.last_row = share.first_row + rows_each + (thread < rows_left ? 1 : 0) - 1;
  return share;
}

void for_each_chunk(const Cells& cells, const std::function<void(const Cells&)>& visit) {
  const int columns = std::max(1, cells.last_column - cells.first_column + 1);
  const int rows = std::max(1, chunk_cells / columns);
  for (int first = cells.first_row; first <= cells.last_row; first += rows) {
    visit({first, std::min(cells.last_row, first + rows - 1), cells.first_column, cells.last_column});
  }
}

double relax_by_all_threads(const Field& from, const Field& to, const Cells& cells, Measure measure) {
  double largest = 0.0;
#pragma omp parallel reduction(max : largest)
  largest = relax(from, to, share_of(cells, omp_get_thread_num(), omp_get_num_threads()), measure);
  return largest;
}

}  // namespace jacobi2d
