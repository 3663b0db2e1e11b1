// The temperature field as a picture.
#pragma once

#include <span>

#include "apps/support/picture.hpp"

namespace jacobi2d {

using partita::apps::Colour;
using partita::apps::EmberMap;
using partita::apps::Picture;
using partita::apps::write_png;

/// Draws a field of rows x columns cells between the temperatures `low` and `high`, with a thin line every twentieth of
/// the range. The longer side has `longer_side` pixels, at least 1; the cells are interpolated.
Picture draw(std::span<const double> cells, int rows, int columns, double low, double high, int longer_side);

}  // namespace jacobi2d
