// Units: the 16 bytes of a block that a thread of a collective moves and reduces at once. An element lies within one.
#pragma once

#include <partita/device/impl/elements.hpp>
#include <partita/device/impl/operators.cuh>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

#if !defined(__CUDACC__)
#include <string.h>
#endif

namespace partita::device {

struct alignas(16) Unit {
  partita_u64 low;
  partita_u64 high;
};

inline constexpr partita_u64 unit_size_bytes = sizeof(Unit);

template <class To, class From>
PARTITA_DEVICE_INLINE To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To to;
  ::memcpy(&to, &from, sizeof to);
  return to;
}

// Not called: what lives across a call is spilled where a kernel has few registers.

/// Whether `bytes` from `address` on are whole words of 4 bytes.
PARTITA_DEVICE_INLINE bool is_in_words(const unsigned char* address, partita_u32 bytes) {
  return (static_cast<partita_u32>(reinterpret_cast<partita_u64>(address)) | bytes) % sizeof(partita_u32) == 0;
}

/// The first `bytes` of a unit, up to 16, that lies anywhere; the others are 0. Words are all on their way at once,
/// what lies between them goes byte by byte.
PARTITA_DEVICE_INLINE Unit load_bytes(const unsigned char* from, partita_u32 bytes) {
  if (is_in_words(from, bytes)) {
    partita_u32 words[4];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_u32 i = 0; i < 4; ++i) words[i] = 4 * i < bytes ? reinterpret_cast<const partita_u32*>(from)[i] : 0;
    return {pair_of(words[0], words[1]), pair_of(words[2], words[3])};
  }
  Unit unit{0, 0};
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 i = bytes; i-- > 0;) {
    unit.high = unit.high << 8 | unit.low >> 56;
    unit.low = unit.low << 8 | from[i];
  }
  return unit;
}
PARTITA_DEVICE_INLINE void store_bytes(unsigned char* to, Unit unit, partita_u32 bytes) {
  if (is_in_words(to, bytes)) {
    const partita_u32 words[4] = {low_half(unit.low), high_half(unit.low), low_half(unit.high), high_half(unit.high)};
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (partita_u32 i = 0; i < 4; ++i) {
      if (4 * i < bytes) reinterpret_cast<partita_u32*>(to)[i] = words[i];
    }
    return;
  }
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_u32 i = 0; i < bytes; ++i) {
    to[i] = static_cast<unsigned char>(unit.low);
    unit.low = unit.low >> 8 | unit.high << 56;
    unit.high >>= 8;
  }
}

/// How many of `bytes` belong to the unit with which they begin.
PARTITA_DEVICE_INLINE partita_u32 bytes_of_unit(partita_u64 bytes) {
  return bytes < unit_size_bytes ? static_cast<partita_u32>(bytes) : static_cast<partita_u32>(unit_size_bytes);
}
PARTITA_DEVICE_INLINE bool is_whole(const unsigned char* address, partita_u32 bytes) {
  return bytes == unit_size_bytes && reinterpret_cast<partita_u64>(address) % unit_size_bytes == 0;
}

/// The unit at `from`, of which `bytes`, up to 16, belong to the block.
PARTITA_DEVICE_INLINE Unit load_unit(const unsigned char* from, partita_u32 bytes) {
  if (is_whole(from, bytes)) return *reinterpret_cast<const Unit*>(from);
  return load_bytes(from, bytes);
}
PARTITA_DEVICE_INLINE void store_unit(unsigned char* to, Unit unit, partita_u32 bytes) {
  if (is_whole(to, bytes)) {
    *reinterpret_cast<Unit*>(to) = unit;
  } else {
    store_bytes(to, unit, bytes);
  }
}

// ---- Reductions ----------------------------------------------------------------------------------------------------

/// A unit on its way through a reduction: floating-point numbers of 16 bits are wider meanwhile.
struct Held {
  Unit first;
  Unit second;
};

namespace reduction {

template <class T>
struct Elements {
  static constexpr int count = static_cast<int>(unit_size_bytes / sizeof(T));
  T values[count];
};

template <class T, class By>
PARTITA_DEVICE_INLINE Held fold(const Held& held, const Unit& coming, By by) {
  auto to = same_bits<Elements<T>>(held.first);
  const auto from = same_bits<Elements<T>>(coming);
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int e = 0; e < Elements<T>::count; ++e) to.values[e] = by(to.values[e], from.values[e]);
  return {same_bits<Unit>(to), held.second};
}

/// What signs do not matter for.
template <class Unsigned>
PARTITA_DEVICE_INLINE Held fold_bits(Combine by, const Held& held, const Unit& coming) {
  switch (by) {
    case Combine::sum:
      return fold<Unsigned>(held, coming, Sum());
    case Combine::prod:
      return fold<Unsigned>(held, coming, Prod());
    case Combine::land:
      return fold<Unsigned>(held, coming, LogicalAnd());
    case Combine::lor:
      return fold<Unsigned>(held, coming, LogicalOr());
    case Combine::lxor:
      return fold<Unsigned>(held, coming, LogicalXor());
    case Combine::band:
      return fold<Unsigned>(held, coming, BitAnd());
    case Combine::bor:
      return fold<Unsigned>(held, coming, BitOr());
    default:
      return fold<Unsigned>(held, coming, BitXor());
  }
}

template <class T, class Unsigned>
PARTITA_DEVICE_INLINE Held fold_integers(Combine by, const Held& held, const Unit& coming) {
  if (by == Combine::min) return fold<T>(held, coming, Min());
  if (by == Combine::max) return fold<T>(held, coming, Max());
  return fold_bits<Unsigned>(by, held, coming);
}

template <class T>
PARTITA_DEVICE_INLINE Held fold_floats(Combine by, const Held& held, const Unit& coming) {
  if (by == Combine::sum) return fold<T>(held, coming, Sum());
  if (by == Combine::prod) return fold<T>(held, coming, Prod());
  if (by == Combine::min) return fold<T>(held, coming, Min());
  return fold<T>(held, coming, Max());
}

template <class T>
PARTITA_DEVICE_INLINE Held fold_complex(Combine by, const Held& held, const Unit& coming) {
  return by == Combine::sum ? fold<Pair<T>>(held, coming, Sum()) : fold<Pair<T>>(held, coming, Prod());
}

template <class P>
PARTITA_DEVICE_INLINE Held fold_pairs(Combine by, const Held& held, const Unit& coming) {
  return by == Combine::minloc ? fold<P>(held, coming, Location<Min>()) : fold<P>(held, coming, Location<Max>());
}

/// Eight numbers of 16 bits as floats.
template <class Format>
PARTITA_DEVICE_INLINE Held widened(const Unit& unit) {
  const auto narrow = same_bits<Elements<u16>>(unit);
  Elements<float> wide[2];
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int e = 0; e < 4; ++e) {
    wide[0].values[e] = Format::value(narrow.values[e]);
    wide[1].values[e] = Format::value(narrow.values[e + 4]);
  }
  return {same_bits<Unit>(wide[0]), same_bits<Unit>(wide[1])};
}

template <class Format>
PARTITA_DEVICE_INLINE Unit narrowed(const Held& held) {
  const auto low = same_bits<Elements<float>>(held.first);
  const auto high = same_bits<Elements<float>>(held.second);
  Elements<u16> narrow;
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (int e = 0; e < 4; ++e) {
    narrow.values[e] = Format::bits(low.values[e]);
    narrow.values[e + 4] = Format::bits(high.values[e]);
  }
  return same_bits<Unit>(narrow);
}

template <class Format>
PARTITA_DEVICE_INLINE Held fold_small_floats(Combine by, const Held& held, const Unit& coming) {
  const Held wide = widened<Format>(coming);
  const Held first = fold_floats<float>(by, held, wide.first);
  const Held second = fold_floats<float>(by, {held.second, held.first}, wide.second);
  return {first.first, second.first};
}

PARTITA_HOST_DEVICE constexpr Element element_of(partita_u32 code) {
  return static_cast<Element>(code >> 8);
}

/// held ⊕ coming, element by element, where it is not one of the commonest: one function for all, since a kernel has a
/// place for each reduction that it inlines.
PARTITA_DEVICE_OUT_OF_LINE Held fold_any(partita_u32 code, Held held, Unit coming) {
  const Combine by = static_cast<Combine>(code & 0xffU);
  switch (element_of(code)) {
    case Element::i8:
      return fold_integers<i8, u8>(by, held, coming);
    case Element::i16:
      return fold_integers<i16, u16>(by, held, coming);
    case Element::i32:
      return fold_integers<i32, u32>(by, held, coming);
    case Element::i64:
      return fold_integers<i64, u64>(by, held, coming);
    case Element::u8:
      return fold_integers<u8, u8>(by, held, coming);
    case Element::u16:
      return fold_integers<u16, u16>(by, held, coming);
    case Element::u32:
      return fold_integers<u32, u32>(by, held, coming);
    case Element::u64:
      return fold_integers<u64, u64>(by, held, coming);
    case Element::f32:
      return fold_floats<float>(by, held, coming);
    case Element::f64:
      return fold_floats<double>(by, held, coming);
    case Element::complex_f32:
      return fold_complex<float>(by, held, coming);
    case Element::complex_f64:
      return fold_complex<double>(by, held, coming);
    case Element::pair_f32_i32:
      return fold_pairs<FloatAndIndex>(by, held, coming);
    case Element::pair_i32:
      return fold_pairs<Pair<i32>>(by, held, coming);
    case Element::pair_f32:
      return fold_pairs<Pair<float>>(by, held, coming);
    case Element::pair_f64:
      return fold_pairs<Pair<double>>(by, held, coming);
    case Element::f16:
      return fold_small_floats<Float16>(by, held, coming);
    case Element::bf16:
      return fold_small_floats<BFloat16>(by, held, coming);
  }
  return held;
}

}  // namespace reduction

/// The first of several units that are reduced in order.
PARTITA_DEVICE_INLINE Held begin_fold(partita_u32 code, const Unit& unit) {
  using namespace reduction;
  if (element_of(code) == Element::f16) return widened<Float16>(unit);
  if (element_of(code) == Element::bf16) return widened<BFloat16>(unit);
  return {unit, {}};
}

/// held ⊕ coming.
PARTITA_DEVICE_INLINE Held fold_in(partita_u32 code, const Held& held, const Unit& coming) {
  using namespace reduction;
  if (code == reduction_code(Element::f32, Combine::sum)) return fold<float>(held, coming, Sum());
  if (code == reduction_code(Element::i32, Combine::sum)) return fold<u32>(held, coming, Sum());
  return fold_any(code, held, coming);
}

PARTITA_DEVICE_INLINE Unit end_fold(partita_u32 code, const Held& held) {
  using namespace reduction;
  if (element_of(code) == Element::f16) return narrowed<Float16>(held);
  if (element_of(code) == Element::bf16) return narrowed<BFloat16>(held);
  return held.first;
}

}  // namespace partita::device
