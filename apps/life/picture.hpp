// The board as a picture.
#pragma once

#include <span>

#include "apps/life/rules.hpp"
#include "apps/support/picture.hpp"

namespace life {

/// Draws a board of rows x columns cells, living ones light. The longer side has at most `most_pixels`: a cell is a
/// square of pixels, or a pixel the share of a square of cells that live.
partita::apps::Picture draw(std::span<const Cell> cells, int rows, int columns, int most_pixels);

}  // namespace life
