#include "apps/jacobi2d/picture.hpp"

#include <algorithm>
#include <cmath>

namespace jacobi2d {
namespace {

/// Looks up temperatures between the middles of cells, in grid coordinates from 0.
class Sampler {
 public:
  Sampler(std::span<const double> cells, int rows, int columns) : cells_(cells), rows_(rows), columns_(columns) {}

  double at(double row, double column) const {
    const double y = std::clamp(row, 0.0, rows_ - 1.0);
    const double x = std::clamp(column, 0.0, columns_ - 1.0);
    const int top = static_cast<int>(y), left = static_cast<int>(x);
    const int bottom = std::min(top + 1, rows_ - 1), right = std::min(left + 1, columns_ - 1);
    const double down = y - top, across = x - left;
    return (1 - down) * ((1 - across) * cell(top, left) + across * cell(top, right)) +
           down * ((1 - across) * cell(bottom, left) + across * cell(bottom, right));
  }

 private:
  double cell(int row, int column) const {
    return cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                  static_cast<std::size_t>(column)];
  }

  std::span<const double> cells_;
  int rows_, columns_;
};

/// How much of a pixel an isotherm covers, 0 to 1: `value` and its change per pixel are in steps between isotherms.
double isotherm_cover(double value, double change_per_pixel) {
  constexpr double half_width_pixels = 0.55;
  // A field so flat that a line would grow into a patch has no line worth drawing.
  constexpr double flattest = 0.001;
  if (change_per_pixel < flattest) return 0.0;
  const double pixels_away = std::abs(value - std::round(value)) / change_per_pixel;
  return std::clamp(half_width_pixels + 0.5 - pixels_away, 0.0, 1.0);
}

Colour mix(Colour base, Colour over, double share) {
  const auto part = [share](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround((1.0 - share) * a + share * b));
  };
  return {part(base.red, over.red), part(base.green, over.green), part(base.blue, over.blue)};
}

}  // namespace

Picture draw(std::span<const double> cells, int rows, int columns, double low, double high, int longer_side) {
  constexpr double isotherm_steps = 20.0;
  constexpr double isotherm_strength = 0.30;
  const EmberMap map;
  const Sampler field(cells, rows, columns);
  const double cells_per_pixel = static_cast<double>(std::max(rows, columns)) / longer_side;

  Picture picture;
  picture.width = std::max(1, static_cast<int>(std::lround(columns / cells_per_pixel)));
  picture.height = std::max(1, static_cast<int>(std::lround(rows / cells_per_pixel)));
  picture.pixels.reserve(static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height));
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const double row = (y + 0.5) * rows / picture.height - 0.5;
      const double column = (x + 0.5) * columns / picture.width - 0.5;
      const auto share = [&](double r, double c) { return (field.at(r, c) - low) / (high - low); };
      const double here = share(row, column);
      const double change =
          0.5 * std::hypot(share(row + cells_per_pixel, column) - share(row - cells_per_pixel, column),
                           share(row, column + cells_per_pixel) - share(row, column - cells_per_pixel));
      const double line = isotherm_strength * isotherm_cover(here * isotherm_steps, change * isotherm_steps);
      // No isotherm lies at 0.575, so none changes its colour on the way.
      picture.pixels.push_back(mix(map.at(here), map.at(here < 0.575 ? 1.0 : 0.0), line));
    }
  }
  return picture;
}

}  // namespace jacobi2d
