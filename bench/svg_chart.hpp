// Line charts over message sizes as SVG text.
#pragma once

#include <string>
#include <vector>

namespace partita::bench {

struct Point {
  double x;
  double y;
};

struct Series {
  std::string name;
  std::vector<Point> points;  ///< ascending in x
};

/// The x axis holds bytes and is logarithmic; so is the y axis if `log_y`, and points that are not positive are then
/// left out.
struct Chart {
  std::string title;
  std::string subtitle;
  std::string y_title;
  bool log_y = true;
  std::vector<Series> series;
};

std::string to_svg(const Chart& chart);

/// 8, 64K, 4M: bytes in powers of 1024 where they are whole ones.
std::string short_bytes(double bytes);

}  // namespace partita::bench
