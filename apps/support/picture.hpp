// Pictures, and PNG files of them.
#pragma once

#include <string>
#include <vector>

#include "apps/support/colour_map.hpp"

namespace partita::apps {

struct Picture {
  int width = 0, height = 0;
  std::vector<Colour> pixels;  ///< row by row from the top
};

/// Writes `picture` as a PNG file with 8 bits per colour. Throws std::runtime_error with a sentence if that fails.
void write_png(const Picture& picture, const std::string& path);

}  // namespace partita::apps
