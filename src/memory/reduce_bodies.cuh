// The body of the kernel that reduces: one source for GPUs and, as the fake GPU of tests runs it, for CPU threads.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/platform.cuh>
#include "memory/kernels.hpp"

namespace partita::memory {
namespace reduction {

using device::Team;

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

struct Prod {
  template <class T>
  PARTITA_DEVICE_INLINE T operator()(T a, T b) const {
    using W = typename Wide<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
  template <class T>
  PARTITA_DEVICE_INLINE Pair<T> operator()(Pair<T> a, Pair<T> b) const {
    return {a.first * b.first - a.second * b.second, a.first * b.second + a.second * b.first};
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

/// What a thread reads and writes at once.
template <class T>
struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T elements[size];
};

PARTITA_DEVICE_INLINE u64 address_of(const void* pointer) {
  return reinterpret_cast<u64>(pointer);
}

/// All of the team: 16 bytes at a time where both sides lie alike, else an element.
template <class T, class By>
PARTITA_DEVICE_INLINE void combine(const ReduceElements& arguments, Team team, By by) {
  T* const to = static_cast<T*>(arguments.to);
  const T* const from = static_cast<const T*>(arguments.from);
  u64 first = arguments.count;  // of the packs
  u64 end = arguments.count;    // behind them
  const u64 shift = address_of(to) % 16;
  if (sizeof(T) < 16 && address_of(from) % 16 == shift && shift % sizeof(T) == 0) {
    const u64 before = (16 - shift) % 16 / sizeof(T);
    if (before < arguments.count) {
      first = before;
      const u64 packs = (arguments.count - before) / Pack<T>::size;
      end = before + packs * Pack<T>::size;
      Pack<T>* const to_packs = reinterpret_cast<Pack<T>*>(to + before);
      const Pack<T>* const from_packs = reinterpret_cast<const Pack<T>*>(from + before);
      for (u64 i = team.rank; i < packs; i += team.count) {
        Pack<T> held = to_packs[i];
        const Pack<T> coming = from_packs[i];
#if defined(__CUDACC__)
#pragma unroll
#endif
        for (int e = 0; e < Pack<T>::size; ++e) held.elements[e] = by(coming.elements[e], held.elements[e]);
        to_packs[i] = held;
      }
    }
  }
  for (u64 i = team.rank; i < first; i += team.count) to[i] = by(from[i], to[i]);
  for (u64 i = end + team.rank; i < arguments.count; i += team.count) to[i] = by(from[i], to[i]);
}

/// What signs do not matter for.
template <class Unsigned>
PARTITA_DEVICE_INLINE void combine_bits(const ReduceElements& arguments, Team team) {
  switch (arguments.by) {
    case Combine::sum:
      return combine<Unsigned>(arguments, team, Sum());
    case Combine::prod:
      return combine<Unsigned>(arguments, team, Prod());
    case Combine::land:
      return combine<Unsigned>(arguments, team, LogicalAnd());
    case Combine::lor:
      return combine<Unsigned>(arguments, team, LogicalOr());
    case Combine::lxor:
      return combine<Unsigned>(arguments, team, LogicalXor());
    case Combine::band:
      return combine<Unsigned>(arguments, team, BitAnd());
    case Combine::bor:
      return combine<Unsigned>(arguments, team, BitOr());
    case Combine::bxor:
      return combine<Unsigned>(arguments, team, BitXor());
    default:
      return;
  }
}

template <class T, class Unsigned>
PARTITA_DEVICE_INLINE void combine_integers(const ReduceElements& arguments, Team team) {
  if (arguments.by == Combine::min) return combine<T>(arguments, team, Min());
  if (arguments.by == Combine::max) return combine<T>(arguments, team, Max());
  combine_bits<Unsigned>(arguments, team);
}

template <class T>
PARTITA_DEVICE_INLINE void combine_floats(const ReduceElements& arguments, Team team) {
  if (arguments.by == Combine::sum) return combine<T>(arguments, team, Sum());
  if (arguments.by == Combine::prod) return combine<T>(arguments, team, Prod());
  if (arguments.by == Combine::min) return combine<T>(arguments, team, Min());
  if (arguments.by == Combine::max) return combine<T>(arguments, team, Max());
}

template <class T>
PARTITA_DEVICE_INLINE void combine_complex(const ReduceElements& arguments, Team team) {
  if (arguments.by == Combine::sum) return combine<Pair<T>>(arguments, team, Sum());
  if (arguments.by == Combine::prod) return combine<Pair<T>>(arguments, team, Prod());
}

template <class P>
PARTITA_DEVICE_INLINE void combine_pairs(const ReduceElements& arguments, Team team) {
  if (arguments.by == Combine::minloc) return combine<P>(arguments, team, Location<Min>());
  if (arguments.by == Combine::maxloc) return combine<P>(arguments, team, Location<Max>());
}

}  // namespace reduction

/// All threads of `team`.
PARTITA_DEVICE_INLINE void reduce_elements(const ReduceElements& arguments, device::Team team) {
  using namespace reduction;
  switch (arguments.element) {
    case Element::i8:
      return combine_integers<i8, u8>(arguments, team);
    case Element::i16:
      return combine_integers<i16, u16>(arguments, team);
    case Element::i32:
      return combine_integers<i32, u32>(arguments, team);
    case Element::i64:
      return combine_integers<i64, u64>(arguments, team);
    case Element::u8:
      return combine_integers<u8, u8>(arguments, team);
    case Element::u16:
      return combine_integers<u16, u16>(arguments, team);
    case Element::u32:
      return combine_integers<u32, u32>(arguments, team);
    case Element::u64:
      return combine_integers<u64, u64>(arguments, team);
    case Element::f32:
      return combine_floats<float>(arguments, team);
    case Element::f64:
      return combine_floats<double>(arguments, team);
    case Element::complex_f32:
      return combine_complex<float>(arguments, team);
    case Element::complex_f64:
      return combine_complex<double>(arguments, team);
    case Element::pair_f32_i32:
      return combine_pairs<FloatAndIndex>(arguments, team);
    case Element::pair_i32:
      return combine_pairs<Pair<i32>>(arguments, team);
    case Element::pair_f32:
      return combine_pairs<Pair<float>>(arguments, team);
    case Element::pair_f64:
      return combine_pairs<Pair<double>>(arguments, team);
  }
}

}  // namespace partita::memory
