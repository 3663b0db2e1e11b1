// What a reduction does with two elements: one source for the library's kernels and for collectives in the program's.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/elements.hpp>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device::reduction {

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = partita_i64;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = partita_u32;
using u64 = partita_u64;

template <class T>
struct Pair {
  T first;
  T second;
};
struct FloatAndIndex {
  float first;
  i32 second;
};

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

/// As wide as a register, so that a product of two short integers does not overflow.
template <class T>
struct Wide {
  using type = u32;
};
template <>
struct Wide<u64> {
  using type = u64;
};
template <>
struct Wide<float> {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};

// Each is rounded by itself: they never become one operation that rounds once, however a program's source is compiled.
// So a product of complex numbers has the same bits in the program's kernels and in the library's, and in either order
// of the two.
#if defined(__CUDACC__)
PARTITA_DEVICE_INLINE float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}
PARTITA_DEVICE_INLINE double rounded_product(double a, double b) {
  return __dmul_rn(a, b);
}
PARTITA_DEVICE_INLINE float rounded_sum(float a, float b) {
  return __fadd_rn(a, b);
}
PARTITA_DEVICE_INLINE double rounded_sum(double a, double b) {
  return __dadd_rn(a, b);
}
PARTITA_DEVICE_INLINE float rounded_difference(float a, float b) {
  return __fsub_rn(a, b);
}
PARTITA_DEVICE_INLINE double rounded_difference(double a, double b) {
  return __dsub_rn(a, b);
}
#else
template <class T>
T rounded_product(T a, T b) {
  return a * b;
}
template <class T>
T rounded_sum(T a, T b) {
  return a + b;
}
template <class T>
T rounded_difference(T a, T b) {
  return a - b;
}
#endif

struct Sum {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    using W = typename Wide<T>::type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
  template <class T>
  PARTITA_DEVICE_INLINE Pair<T> operator()(Pair<T> a, Pair<T> b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

/// The only operator with both products and sums in it, which a compiler might join.
struct Prod {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    using W = typename Wide<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
  template <class T>
  PARTITA_DEVICE_INLINE Pair<T> operator()(Pair<T> a, Pair<T> b) const {
    return {rounded_difference(rounded_product(a.first, b.first), rounded_product(a.second, b.second)),
            rounded_sum(rounded_product(a.first, b.second), rounded_product(a.second, b.first))};
  }
};

/// Whether no order of the two numbers tells them apart: both zeros, or one is no number.
template <class T>
PARTITA_DEVICE_INLINE bool is_tie(T a, T b) {
  return !(a < b) && !(b < a);
}

PARTITA_DEVICE_INLINE u32 bits_of(float value) {
#if defined(__CUDACC__)
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(u32, value);
#endif
}
PARTITA_DEVICE_INLINE u64 bits_of(double value) {
#if defined(__CUDACC__)
  return static_cast<u64>(__double_as_longlong(value));
#else
  return __builtin_bit_cast(u64, value);
#endif
}

/// Every integer is.
PARTITA_DEVICE_INLINE bool is_number(i32) {
  return true;
}
PARTITA_DEVICE_INLINE bool is_number(float value) {
  return bits_of(value) << 1 <= 0xff000000u;
}
PARTITA_DEVICE_INLINE bool is_number(double value) {
  return bits_of(value) << 1 <= 0xffe0000000000000u;
}

/// One of two that tie, the same in either order: what is no number before a number, and of two zeros the positive one
/// where the `upper` is wanted.
template <class T>
PARTITA_DEVICE_INLINE T of_tie(T a, T b, bool upper) {
  const bool a_is_number = is_number(a);
  const bool b_is_number = is_number(b);
  if (a_is_number != b_is_number) return a_is_number ? b : a;
  const bool a_is_less = bits_of(a) < bits_of(b);  // the sign is the highest bit
  const bool less_is_wanted = a_is_number && upper;
  return a_is_less == less_is_wanted ? a : b;
}

struct Min {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    if constexpr (is_float<T>) {
      if (is_tie(a, b)) return of_tie(a, b, false);
    }
    return a < b ? a : b;
  }
};

struct Max {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    if constexpr (is_float<T>) {
      if (is_tie(a, b)) return of_tie(a, b, true);
    }
    return b < a ? a : b;
  }
};

struct LogicalAnd {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a != 0 && b != 0 ? 1 : 0);
  }
};
struct LogicalOr {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a != 0 || b != 0 ? 1 : 0);
  }
};
struct LogicalXor {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>((a != 0) != (b != 0) ? 1 : 0);
  }
};
struct BitAnd {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

/// Chooses between pairs of a value and an index. A value that is no number comes first.
template <class Better>
struct Location {
  template <class P>
  PARTITA_DEVICE_INLINE P operator()(P a, P b) const {
    const auto best = Better()(a.first, b.first);
    // What is no number is best, and equals nothing.
    const bool a_has_it = a.first == best || !is_number(a.first);
    const bool b_has_it = b.first == best || !is_number(b.first);
    const bool a_is_taken = a_has_it && (!b_has_it || a.second <= b.second);
    return {best, a_is_taken ? a.second : b.second};
  }
};

// ---- Floating-point numbers of 16 bits -----------------------------------------------------------------------------

PARTITA_DEVICE_INLINE float float_of(u32 bits) {
#if defined(__CUDACC__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

/// IEEE 754's binary16.
struct Float16 {
  PARTITA_DEVICE_INLINE static float value(u16 bits) {
#if defined(__CUDACC__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const u32 sign = (bits & 0x8000U) << 16;
    const u32 exponent = bits >> 10 & 0x1fU;
    const u32 fraction = bits & 0x3ffU;
    if (exponent == 31) return float_of(sign | 0x7f800000U | fraction << 13);
    if (exponent > 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    const float subnormal = static_cast<float>(fraction) * (1.0F / 16777216);
    return sign != 0 ? -subnormal : subnormal;
#endif
  }
  /// Rounds to the nearest, ties to even. All that is not a number becomes the same bits.
  PARTITA_DEVICE_INLINE static u16 bits(float value) {
#if defined(__CUDACC__)
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    constexpr u32 infinite = 0x7f800000, rounds_to_infinity = 0x477ff000, least_normal = 0x38800000;
    const u32 given = bits_of(value);
    const u32 sign = given >> 16 & 0x8000U;
    const u32 magnitude = given & 0x7fffffffU;
    if (magnitude > infinite) return 0x7e00;
    if (magnitude >= rounds_to_infinity) return static_cast<u16>(sign | 0x7c00U);
    if (magnitude < least_normal) {
      // The last bit of a float from 0.5 on is 2^-24, as that of a subnormal: the addition rounds.
      const float moved = float_of(magnitude) + 0.5F;
      return static_cast<u16>(sign | (bits_of(moved) - 0x3f000000U));
    }
    const u32 last_bit = magnitude >> 13 & 1U;
    return static_cast<u16>(sign | (magnitude - (112U << 23) + 0xfffU + last_bit) >> 13);
#endif
  }
};

/// The upper half of IEEE 754's binary32.
struct BFloat16 {
  PARTITA_DEVICE_INLINE static float value(u16 bits) { return float_of(static_cast<u32>(bits) << 16); }
  /// As Float16::bits.
  PARTITA_DEVICE_INLINE static u16 bits(float value) {
    const u32 given = bits_of(value);
    if ((given & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
    return static_cast<u16>((given + 0x7fffU + (given >> 16 & 1U)) >> 16);
  }
};

}  // namespace partita::device::reduction
