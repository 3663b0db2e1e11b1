// What reductions take, and what they do. For the host too.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// What a reduction takes. A complex number and a pair are two of their halves, one behind the other.
enum class Element : partita_u32 {
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f32,
  f64,
  complex_f32,
  complex_f64,
  pair_f32_i32,  ///< of a value and an index
  pair_i32,
  pair_f32,
  pair_f64,
  f16,   ///< IEEE 754's binary16; computed in f32
  bf16,  ///< the upper half of a binary32; computed in f32
};

/// What it does. Where values are equal, minloc and maxloc take the lower index; where one value is no number, min and
/// max take that one.
enum class Combine : partita_u32 { sum, prod, min, max, land, lor, lxor, band, bor, bxor, minloc, maxloc };

/// Partita_Prequest.reduction.
PARTITA_HOST_DEVICE constexpr partita_u32 reduction_code(Element element, Combine by) {
  return (static_cast<partita_u32>(element) << 8) | static_cast<partita_u32>(by);
}

}  // namespace partita::device
