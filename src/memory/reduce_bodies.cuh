// The body of the kernel that reduces: one source for GPUs and, as the fake GPU of tests runs it, for CPU threads.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/operators.cuh>
#include <partita/device/impl/platform.cuh>
#include "memory/kernels.hpp"

namespace partita::memory {
namespace reduction {

using device::Team;
using namespace device::reduction;

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

/// Elements of 16 bits are reduced by their values as floats.
template <class Format, class By>
struct OfValues {
  PARTITA_DEVICE_INLINE u16 operator()(u16 a, u16 b) const {
    return Format::bits(By()(Format::value(a), Format::value(b)));
  }
};

template <class Format>
PARTITA_DEVICE_INLINE void combine_small_floats(const ReduceElements& arguments, Team team) {
  if (arguments.by == Combine::sum) return combine<u16>(arguments, team, OfValues<Format, Sum>());
  if (arguments.by == Combine::prod) return combine<u16>(arguments, team, OfValues<Format, Prod>());
  if (arguments.by == Combine::min) return combine<u16>(arguments, team, OfValues<Format, Min>());
  if (arguments.by == Combine::max) return combine<u16>(arguments, team, OfValues<Format, Max>());
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
    case Element::f16:
      return combine_small_floats<Float16>(arguments, team);
    case Element::bf16:
      return combine_small_floats<BFloat16>(arguments, team);
  }
}

}  // namespace partita::memory
