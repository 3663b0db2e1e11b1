#include "apps/life/picture.hpp"

#include <algorithm>

namespace life {
namespace {

/// The share of living cells among those from `first` on, both ways `cells_each` or as many as there are.
double living_share(std::span<const Cell> cells, int rows, int columns, int first_row, int first_column,
                    int cells_each) {
  const int last_row = std::min(rows, first_row + cells_each),
            last_column = std::min(columns, first_column + cells_each);
  Cell living = 0;
  for (int row = first_row; row < last_row; ++row) {
    for (int column = first_column; column < last_column; ++column) {
      living +=
          cells[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column)];
    }
  }
  return static_cast<double>(living) / ((last_row - first_row) * (last_column - first_column));
}

}  // namespace

partita::apps::Picture draw(std::span<const Cell> cells, int rows, int columns, int most_pixels) {
  const int longer = std::max(rows, columns);
  const int cells_each = (longer + most_pixels - 1) / most_pixels;  // of a pixel
  const int pixels_each = std::max(1, most_pixels / longer);        // of a cell
  const auto pixels_of = [&](int count) { return (count + cells_each - 1) / cells_each * pixels_each; };
  const partita::apps::EmberMap map;

  partita::apps::Picture picture{pixels_of(columns), pixels_of(rows), {}};
  picture.pixels.reserve(static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height));
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      picture.pixels.push_back(map.at(
          living_share(cells, rows, columns, y / pixels_each * cells_each, x / pixels_each * cells_each, cells_each)));
    }
  }
  return picture;
}

}  // namespace life
