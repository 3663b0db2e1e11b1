#include "apps/cg/host_work.hpp"

#include <algorithm>
#include <new>

namespace cg {
namespace {

constexpr auto direction = static_cast<int>(Product::direction);
constexpr auto residual = static_cast<int>(Product::residual);

/// 0 where there is nothing left to divide: then the solution is exact.
double quotient(double of, double by) {
  return by > 0 ? of / by : 0.0;
}

/// Row by row, so that long sums stay exact; `term(i)` of a point.
template <class Term>
double sum_of_points(const Vectors& v, Term term) {
  double sum = 0;
  for (int row = 0; row < v.rows; ++row) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(row) * v.columns;
    double of_row = 0;
    for (std::ptrdiff_t i = first; i < first + v.columns; ++i) of_row += term(i);
    sum += of_row;
  }
  return sum;
}

}  // namespace

HostWork::HostWork(const Problem& problem, int first_row, int rows)
    : problem_(problem),
      first_row_(first_row),
      memory_(static_cast<std::size_t>(size_of(rows, problem.columns)) * sizeof(double) + sizeof(Numbers)) {
  const auto doubles = static_cast<std::size_t>(size_of(rows, problem.columns));
  auto* const first = static_cast<double*>(memory_.get());
  std::fill_n(first, doubles, 0.0);
  vectors_ = vectors_in(first, ::new (first + doubles) Numbers{}, rows, problem.columns);
}

void HostWork::start() {
  const Vectors& v = vectors_;
  std::fill_n(v.x, v.points(), 0.0);
  double* r = v.r;
  for (int row = 0; row < v.rows; ++row) {
    for (int column = 0; column < v.columns; ++column) {
      *r++ = right_hand_side_at(problem_, first_row_ + row, column);
    }
  }
  std::copy_n(v.r, v.points(), v.first_row());
  numbers().own[residual] = sum_of_points(v, [&](std::ptrdiff_t i) { return v.r[i] * v.r[i]; });
}

void HostWork::apply() {
  const Vectors& v = vectors_;
  numbers().before = numbers().all[residual];
  double sum = 0;
  for (int row = 0; row < v.rows; ++row) {
    const double* const p = v.first_row() + static_cast<std::ptrdiff_t>(row) * v.columns;
    double* const q = v.q + static_cast<std::ptrdiff_t>(row) * v.columns;
    double of_row = 0;
    for (int column = 0; column < v.columns; ++column) {
      const double left = column > 0 ? p[column - 1] : 0.0;
      const double right = column + 1 < v.columns ? p[column + 1] : 0.0;
      q[column] = 4 * p[column] - p[column - v.columns] - p[column + v.columns] - left - right;
      of_row += p[column] * q[column];
    }
    sum += of_row;
  }
  numbers().own[direction] = sum;
}

void HostWork::advance() {
  const Vectors& v = vectors_;
  const double alpha = quotient(numbers().before, numbers().all[direction]);
  const double* const p = v.first_row();
  numbers().own[residual] = sum_of_points(v, [&](std::ptrdiff_t i) {
    v.x[i] += alpha * p[i];
    v.r[i] -= alpha * v.q[i];
    return v.r[i] * v.r[i];
  });
}

void HostWork::turn() {
  const Vectors& v = vectors_;
  const double beta = quotient(numbers().all[residual], numbers().before);
  double* const p = v.first_row();
  for (std::ptrdiff_t i = 0; i < v.points(); ++i) p[i] = v.r[i] + beta * p[i];
}

}  // namespace cg
