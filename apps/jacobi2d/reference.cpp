#include "apps/jacobi2d/reference.hpp"

#include <fmt/format.h>

#include <bit>

#include "apps/jacobi2d/stencil.hpp"
#include "apps/support/progress.hpp"

namespace jacobi2d {
namespace {

using partita::apps::Progress;

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::size_t index_after(int iterations) {
  return static_cast<std::size_t>(iterations % 2);
}

}  // namespace

std::optional<Difference> first_difference(const Division& division, std::span<const double> got,
                                           const Field& expected) {
  std::optional<Difference> first;
  for (int row = 0; row < division.rows; ++row) {
    for (int column = 0; column < division.columns; ++column) {
      const double cell = got[static_cast<std::size_t>(row) * static_cast<std::size_t>(division.columns) +
                              static_cast<std::size_t>(column)];
      const double right = expected.at(row + 1, column + 1);
      if (same_bits(cell, right)) continue;
      if (!first) first = Difference{row, column, owner_of(division, row, column), right, cell, 0};
      ++first->cells;
    }
  }
  return first;
}

std::string describe(const Difference& difference) {
  return fmt::format(
      "{} cells differ from the one-rank solution; the first is row {}, column {}, computed by rank {}: expected "
      "{:.17g}, got {:.17g}",
      difference.cells, difference.row, difference.column, difference.owner, difference.expected, difference.got);
}

Reference::Reference(const Division& division, const Problem& problem) : division_(division), problem_(problem) {
  const std::ptrdiff_t field_size = size_of(division.rows, division.columns);
  memory_.resize(2 * static_cast<std::size_t>(field_size));
  fields_[0] = field_in(memory_.data(), division.rows, division.columns);
  fields_[1] = field_in(memory_.data() + field_size, division.rows, division.columns);
  restart();
}

void Reference::restart() {
  const Block whole{0, 0, division_.rows, division_.columns};
  for (const Field& field : fields_) fill(field, whole, division_, problem_);
  iterations_ = 0;
}

const Field& Reference::after(int iterations) {
  if (iterations < iterations_) restart();
  Progress progress(true);
  for (; iterations_ < iterations; ++iterations_) {
    relax_by_all_threads(fields_[index_after(iterations_)], fields_[index_after(iterations_ + 1)],
                         all_cells(division_.rows, division_.columns), Measure::nothing);
    if (progress.due()) Progress::say("check", fmt::format("iteration {} of {} on one rank", iterations_, iterations));
  }
  return fields_[index_after(iterations_)];
}

}  // namespace jacobi2d
