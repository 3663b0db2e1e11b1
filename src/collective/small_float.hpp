// Floating-point numbers of 16 bits, and what a reduction does with them.
#pragma once

#include <partita/device/impl/operators.cuh>

#include <cmath>

namespace partita::collective {

using device::reduction::BFloat16;
using device::reduction::Float16;

/// As IEEE 754-2019's maximum: what is not a number wins, and +0 over -0, in whatever order the two come.
inline float greater_of(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

/// Likewise, and -0 wins over +0.
inline float lesser_of(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

}  // namespace partita::collective
