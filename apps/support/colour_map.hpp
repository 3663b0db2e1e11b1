// A colour map whose lightness rises evenly, so that equal steps of temperature look equal, in grey too.
#pragma once

#include <array>
#include <cstdint>

namespace partita::apps {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;

  bool operator==(const Colour&) const = default;
};

/// From near-black violet over red and orange to pale yellow. Made in OKLCH: lightness linear, hue turning one way,
/// chroma as high as a screen can show up to a limit.
class EmberMap {
 public:
  EmberMap();
  /// The colour at `value`, 0 to 1; values outside are taken as the nearer end.
  Colour at(double value) const;

 private:
  static constexpr std::size_t steps = 1024;
  std::array<Colour, steps> colours_;
};

}  // namespace partita::apps
