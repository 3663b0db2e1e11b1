#include "bench/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace partita::bench {

namespace {

constexpr double width = 760;
constexpr double height = 460;
constexpr double left = 80;
constexpr double right = 600;
constexpr double top = 60;
constexpr double bottom = 400;

/// Colours that differ in lightness too (Okabe and Ito's), for readers who do not see all hues.
constexpr std::array<std::string_view, 8> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#000000", "#999999"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

/// From data to the drawing along one axis.
struct Axis {
  double from;  ///< of the data, its logarithm if `log`
  double to;
  double begin;  ///< in the drawing
  double end;
  bool log;

  bool shows(double value) const { return !log || value > 0; }
  double place(double value) const {
    const double data = log ? std::log10(value) : value;
    return begin + (data - from) / (to - from) * (end - begin);
  }
};

Axis fit(const Chart& chart, double Point::* coordinate, double begin, double end, bool log) {
  double least = std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::lowest();
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      const double value = point.*coordinate;
      if (log && value <= 0) continue;
      least = std::min(least, log ? std::log10(value) : value);
      most = std::max(most, log ? std::log10(value) : value);
    }
  }
  if (least > most) return {0, 1, begin, end, log};
  if (!log) least = std::min(least, 0.0);
  const double margin = (most - least) * 0.04 + (most == least ? 0.5 : 0);
  return {least - (log ? margin : 0), most + margin, begin, end, log};
}

/// Powers of ten with 2 and 5 between them where the axis is short; round steps on a linear one.
std::vector<double> y_ticks(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.log) {
    const bool dense = axis.to - axis.from < 2.5;
    for (int power = static_cast<int>(std::floor(axis.from)); power <= static_cast<int>(std::ceil(axis.to)); ++power) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double at = power + std::log10(digit);
        if ((digit == 1 || dense) && at >= axis.from && at <= axis.to) ticks.push_back(digit * std::pow(10.0, power));
      }
    }
    return ticks;
  }
  const double rough = (axis.to - axis.from) / 6;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 2 ? 2 : rough / power < 5 ? 5 : 10);
  const double first = std::ceil(axis.from / step);
  for (int tick = 0; (first + tick) * step <= axis.to; ++tick) ticks.push_back((first + tick) * step);
  return ticks;
}

/// One a data point's x, thinned so that labels do not touch.
std::vector<double> x_ticks(const Chart& chart) {
  std::vector<double> all;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) all.push_back(point.x);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  constexpr std::size_t most_labels = 12;
  const std::size_t stride = (all.size() + most_labels - 1) / most_labels;
  std::vector<double> ticks;
  for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(stride, 1)) ticks.push_back(all[i]);
  return ticks;
}

std::string draw_axes(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : y_ticks(y)) {
    const double at = y.place(tick);
    svg += fmt::format("<line x1='{}' y1='{:.1f}' x2='{}' y2='{:.1f}' stroke='#ddd'/>\n", left, at, right, at);
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:g}</text>\n", left - 8, at + 4, tick);
  }
  for (const double tick : x_ticks(chart)) {
    const double at = x.place(tick);
    svg += fmt::format("<line x1='{:.1f}' y1='{}' x2='{:.1f}' y2='{}' stroke='#333'/>\n", at, bottom, at, bottom + 5);
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", at, bottom + 20, short_bytes(tick));
  }
  svg += fmt::format("<path d='M{} {}V{}H{}' fill='none' stroke='#333'/>\n", left, top, bottom, right);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>message size in bytes</text>\n", (left + right) / 2,
                     bottom + 44);
  svg += fmt::format("<text transform='translate(20 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                     (top + bottom) / 2, escaped(chart.y_title));
  return svg;
}

std::string draw_series(const Series& series, std::size_t index, const Axis& x, const Axis& y) {
  const std::string_view colour = colours[index % colours.size()];
  std::string line;
  std::string dots;
  for (const Point& point : series.points) {
    if (!x.shows(point.x) || !y.shows(point.y)) continue;
    line += fmt::format("{:.1f},{:.1f} ", x.place(point.x), y.place(point.y));
    dots += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3'/>", x.place(point.x), y.place(point.y));
  }
  const double legend = top + 10 + 20 * static_cast<double>(index);
  std::string svg = fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", line, colour);
  svg += fmt::format("<g fill='{}'>{}</g>\n", colour, dots);
  svg += fmt::format("<line x1='{}' y1='{}' x2='{}' y2='{}' stroke='{}' stroke-width='2'/>\n", right + 12, legend,
                     right + 32, legend, colour);
  svg += fmt::format("<text x='{}' y='{}'>{}</text>\n", right + 38, legend + 4, escaped(series.name));
  return svg;
}

}  // namespace

std::string short_bytes(double bytes) {
  constexpr std::array<std::string_view, 4> units{"", "K", "M", "G"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && std::fmod(bytes, 1024) == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:g}{}", bytes, units[unit]);
}

std::string to_svg(const Chart& chart) {
  const Axis x = fit(chart, &Point::x, left, right, true);
  const Axis y = fit(chart, &Point::y, bottom, top, chart.log_y);
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' font-size='12'>\n"
      "<rect width='100%' height='100%' fill='white'/>\n",
      width, height);
  svg += fmt::format("<text x='{}' y='26' font-size='17'>{}</text>\n", left, escaped(chart.title));
  svg += fmt::format("<text x='{}' y='45' fill='#555'>{}</text>\n", left, escaped(chart.subtitle));
  svg += draw_axes(chart, x, y);
  for (std::size_t i = 0; i < chart.series.size(); ++i) svg += draw_series(chart.series[i], i, x, y);
  return svg + "</svg>\n";
}

}  // namespace partita::bench
