#include "apps/fft/problem.hpp"

#include <cmath>
#include <numbers>

#include "apps/support/mixed.hpp"

namespace fft {
namespace {

using partita::apps::mixed;

double from_minus_1_to_1(std::uint64_t bits) {
  return std::ldexp(static_cast<double>(bits >> 11U), -52) - 1.0;
}

Complex input_at(std::int64_t index) {
  const auto i = 2 * static_cast<std::uint64_t>(index);
  return {from_minus_1_to_1(mixed(i)), from_minus_1_to_1(mixed(i + 1))};
}

/// exp(-2 pi i frequency k / extent) for each k of `range`.
std::vector<Complex> waves(std::int64_t extent, const Range& range, std::int64_t frequency) {
  std::vector<Complex> values;
  values.reserve(static_cast<std::size_t>(range.count));
  for (std::int64_t k = range.first; k < range.end(); ++k) {
    const auto turn = static_cast<double>(k * frequency % extent) / static_cast<double>(extent);
    values.push_back(std::polar(1.0, -2 * std::numbers::pi * turn));
  }
  return values;
}

}  // namespace

Complex input_at(const Extents& size, std::int64_t x, std::int64_t y, std::int64_t z) {
  return input_at((x * size[1] + y) * size[2] + z);
}

std::vector<Complex> input_of(const Extents& size, const Box& box, const std::array<int, 3>& order) {
  std::vector<Complex> cells;
  cells.reserve(static_cast<std::size_t>(box.cells()));
  visit_cells(size, box, order, [&](std::int64_t index) { cells.push_back(input_at(index)); });
  return cells;
}

Complex sum_by_definition(const Extents& size, const Box& box, const std::vector<Complex>& cells,
                          const Extents& frequency) {
  std::array<std::vector<Complex>, 3> wave;
  for (std::size_t axis = 0; axis < 3; ++axis) wave[axis] = waves(size[axis], box.axes[axis], frequency[axis]);
  Complex sum = 0;
  std::size_t cell = 0;
  for (const Complex& along_x : wave[0]) {
    Complex of_plane = 0;
    for (const Complex& along_y : wave[1]) {
      Complex of_line = 0;
      for (const Complex& along_z : wave[2]) of_line += cells[cell++] * along_z;
      of_plane += of_line * along_y;
    }
    sum += of_plane * along_x;
  }
  return sum;
}

}  // namespace fft
