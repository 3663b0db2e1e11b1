// What is transformed.
#pragma once

#include <complex>
#include <vector>

#include "apps/fft/decomposition.hpp"

namespace fft {

using Complex = std::complex<double>;

struct Problem {
  Extents size{64, 64, 64};
  Decomposition decomposition = Decomposition::slab;
  int slices = 8;  ///< into which a rank's cells are cut at most, on the way from one stage to the next
};

/// The input: numbers without a pattern, whose parts lie from -1 to 1. Each follows from its place alone.
Complex input_at(const Extents& size, std::int64_t x, std::int64_t y, std::int64_t z);

/// The input of `box`, its axes in this order, the last one fastest.
std::vector<Complex> input_of(const Extents& size, const Box& box, const std::array<int, 3>& order);

/// The place of each cell of `box` in the whole grid, x slowest and z fastest, in the order in which `order` has them:
/// calls visit(index) for one after the other.
template <class Visit>
void visit_cells(const Extents& size, const Box& box, const std::array<int, 3>& order, const Visit& visit) {
  std::array<Range, 3> ranges;
  std::array<std::int64_t, 3> strides;
  const std::array<std::int64_t, 3> whole{size[1] * size[2], size[2], 1};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    ranges[i] = box.axes[axis];
    strides[i] = whole[axis];
  }
  for (std::int64_t a = ranges[0].first; a < ranges[0].end(); ++a) {
    for (std::int64_t b = ranges[1].first; b < ranges[1].end(); ++b) {
      for (std::int64_t c = ranges[2].first; c < ranges[2].end(); ++c) {
        visit(a * strides[0] + b * strides[1] + c * strides[2]);
      }
    }
  }
}

/// The transform at frequency `frequency`, by its definition: what the cells of `box` add to it. `cells` has x slowest
/// and z fastest.
Complex sum_by_definition(const Extents& size, const Box& box, const std::vector<Complex>& cells,
                          const Extents& frequency);

}  // namespace fft
