// Floating-point numbers of 16 bits, and what a reduction does with them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace partita::collective {

/// IEEE 754's binary16.
struct Float16 {
  static float value(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
    if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -subnormal : subnormal;
  }
  /// Rounds to the nearest, ties to even. All that is not a number becomes the same bits.
  static std::uint16_t bits(float value) {
    constexpr std::uint32_t infinite = 0x7f800000, rounds_to_infinity = 0x477ff000, least_normal = 0x38800000;
    const auto given = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = given >> 16 & 0x8000U;
    const std::uint32_t magnitude = given & 0x7fffffffU;
    if (magnitude > infinite) return 0x7e00;
    if (magnitude >= rounds_to_infinity) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < least_normal) {
      // The last bit of a float from 0.5 on is 2^-24, as that of a subnormal: the addition rounds.
      const float moved = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(moved) - 0x3f000000U));
    }
    const std::uint32_t last_bit = magnitude >> 13 & 1U;
    return static_cast<std::uint16_t>(sign | (magnitude - (112U << 23) + 0xfffU + last_bit) >> 13);
  }
};

/// The upper half of IEEE 754's binary32.
struct BFloat16 {
  static float value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  /// As Float16::bits.
  static std::uint16_t bits(float value) {
    const auto given = std::bit_cast<std::uint32_t>(value);
    if ((given & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
    return static_cast<std::uint16_t>((given + 0x7fffU + (given >> 16 & 1U)) >> 16);
  }
};

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
