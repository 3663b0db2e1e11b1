#include "apps/support/colour_map.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace partita::apps {
namespace {

struct LinearRgb {
  double red, green, blue;

  bool on_screen() const {
    const auto within = [](double part) { return part >= 0.0 && part <= 1.0; };
    return within(red) && within(green) && within(blue);
  }
};

/// OKLab to linear sRGB, by Ottosson's matrices.
LinearRgb linear_rgb(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180.0;
  const double a = chroma * std::cos(hue);
  const double b = chroma * std::sin(hue);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

std::uint8_t screen_byte(double linear) {
  const double light = std::clamp(linear, 0.0, 1.0);
  const double coded = light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1.0 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255.0 * coded));
}

/// The largest chroma up to `limit` that a screen can show at this lightness and hue.
double shown_chroma(double lightness, double hue_degrees, double limit) {
  if (linear_rgb(lightness, limit, hue_degrees).on_screen()) return limit;
  double low = 0.0, high = limit;
  for (int halving = 0; halving < 30; ++halving) {
    const double middle = 0.5 * (low + high);
    (linear_rgb(lightness, middle, hue_degrees).on_screen() ? low : high) = middle;
  }
  return low;
}

Colour ember(double value) {
  constexpr double darkest = 0.13, lightest = 0.97;
  constexpr double first_hue = 282.0, last_hue = 360.0 + 108.0;
  constexpr double most_chroma = 0.175;
  const double lightness = darkest + (lightest - darkest) * value;
  const double hue = first_hue + (last_hue - first_hue) * value;
  const double limit = most_chroma * std::pow(std::sin(std::numbers::pi * (0.12 + 0.76 * value)), 0.7);
  const LinearRgb colour = linear_rgb(lightness, shown_chroma(lightness, hue, limit), hue);
  return {screen_byte(colour.red), screen_byte(colour.green), screen_byte(colour.blue)};
}

}  // namespace

EmberMap::EmberMap() {
  for (std::size_t i = 0; i < steps; ++i) colours_[i] = ember(static_cast<double>(i) / (steps - 1));
}

Colour EmberMap::at(double value) const {
  const double inside = value > 0.0 ? std::min(value, 1.0) : 0.0;
  return colours_[static_cast<std::size_t>(std::lround(inside * (steps - 1)))];
}

}  // namespace partita::apps
