// The temperature field as a picture.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/jacobi2d/colour_map.hpp"

namespace jacobi2d {

struct Picture {
  int width = 0, height = 0;
  std::vector<Colour> pixels;  ///< row by row from the top
};

/// Draws a field of rows x columns cells between the temperatures `low` and `high`, with a thin line every twentieth of
/// the range. The longer side has `longer_side` pixels, at least 1; the cells are interpolated.
Picture draw(std::span<const double> cells, int rows, int columns, double low, double high, int longer_side);

/// Writes `picture` as a PNG file with 8 bits per colour. Throws std::runtime_error with a sentence if that fails.
void write_png(const Picture& picture, const std::string& path);

}  // namespace jacobi2d
