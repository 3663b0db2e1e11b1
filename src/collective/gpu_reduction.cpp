#include "collective/gpu_reduction.hpp"

#include <initializer_list>
#include <optional>

#include "core/error.hpp"
#include "core/mpi_check.hpp"

namespace partita::collective {
namespace {

using memory::Combine;
using memory::Element;

/// Some are MPI_DATATYPE_NULL in an MPI without Fortran or C++.
bool is_one_of(MPI_Datatype datatype, std::initializer_list<MPI_Datatype> types) {
  for (const MPI_Datatype each : types) {
    if (each == datatype && each != MPI_DATATYPE_NULL) return true;
  }
  return false;
}

std::optional<Combine> combine_of(MPI_Op op) {
  const struct {
    MPI_Op op;
    Combine by;
  } all[] = {
      {MPI_SUM, Combine::sum},   {MPI_PROD, Combine::prod},     {MPI_MIN, Combine::min},
      {MPI_MAX, Combine::max},   {MPI_LAND, Combine::land},     {MPI_LOR, Combine::lor},
      {MPI_LXOR, Combine::lxor}, {MPI_BAND, Combine::band},     {MPI_BOR, Combine::bor},
      {MPI_BXOR, Combine::bxor}, {MPI_MINLOC, Combine::minloc}, {MPI_MAXLOC, Combine::maxloc},
  };
  for (const auto& each : all) {
    if (each.op == op) return each.by;
  }
  return {};
}

bool is_signed_integer(MPI_Datatype datatype) {
  return is_one_of(datatype, {
                                 MPI_INT,
                                 MPI_LONG,
                                 MPI_SHORT,
                                 MPI_LONG_LONG,
                                 MPI_SIGNED_CHAR,
                                 MPI_INT8_T,
                                 MPI_INT16_T,
                                 MPI_INT32_T,
                                 MPI_INT64_T,
                                 MPI_AINT,
                                 MPI_OFFSET,
                                 MPI_COUNT,
                                 MPI_INTEGER,
#if defined(MPI_INTEGER1)
                                 MPI_INTEGER1,
#endif
#if defined(MPI_INTEGER2)
                                 MPI_INTEGER2,
#endif
#if defined(MPI_INTEGER4)
                                 MPI_INTEGER4,
#endif
#if defined(MPI_INTEGER8)
                                 MPI_INTEGER8,
#endif
                             });
}

/// Truth values and bytes as well.
bool is_unsigned_integer(MPI_Datatype datatype) {
  return is_one_of(datatype, {MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_SHORT, MPI_UNSIGNED_LONG_LONG,
                              MPI_UNSIGNED_CHAR, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_C_BOOL,
                              MPI_CXX_BOOL, MPI_LOGICAL, MPI_BYTE});
}

bool is_real(MPI_Datatype datatype) {
  return is_one_of(datatype, {
                                 MPI_FLOAT,
                                 MPI_DOUBLE,
                                 MPI_REAL,
                                 MPI_DOUBLE_PRECISION,
#if defined(MPI_REAL4)
                                 MPI_REAL4,
#endif
#if defined(MPI_REAL8)
                                 MPI_REAL8,
#endif
                             });
}

bool is_complex(MPI_Datatype datatype) {
  return is_one_of(datatype, {MPI_C_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX,
                              MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX});
}

std::optional<Element> element_of(MPI_Datatype datatype, MPI_Count size_bytes) {
  if (is_signed_integer(datatype)) {
    if (size_bytes == 1) return Element::i8;
    if (size_bytes == 2) return Element::i16;
    if (size_bytes == 4) return Element::i32;
    if (size_bytes == 8) return Element::i64;
  } else if (is_unsigned_integer(datatype)) {
    if (size_bytes == 1) return Element::u8;
    if (size_bytes == 2) return Element::u16;
    if (size_bytes == 4) return Element::u32;
    if (size_bytes == 8) return Element::u64;
  } else if (is_real(datatype)) {
    if (size_bytes == 4) return Element::f32;
    if (size_bytes == 8) return Element::f64;
  } else if (is_complex(datatype)) {
    if (size_bytes == 8) return Element::complex_f32;
    if (size_bytes == 16) return Element::complex_f64;
  } else if (is_one_of(datatype, {MPI_FLOAT_INT})) {
    return Element::pair_f32_i32;
  } else if (is_one_of(datatype, {MPI_2INT, MPI_2INTEGER})) {
    if (size_bytes == 8) return Element::pair_i32;
  } else if (is_one_of(datatype, {MPI_2REAL})) {
    if (size_bytes == 8) return Element::pair_f32;
  } else if (is_one_of(datatype, {MPI_2DOUBLE_PRECISION})) {
    if (size_bytes == 16) return Element::pair_f64;
  }
  return {};
}

}  // namespace

GpuReduction gpu_reduction(MPI_Op op, MPI_Datatype datatype) {
  const auto by = combine_of(op);
  if (!by) {
    throw Error(ErrorClass::op,
                "argument op is an operation of the program's, which runs on the host, and the buffers are GPU memory; "
                "expected is a predefined operation, or buffers in host memory");
  }
  MPI_Count size_bytes = 0;
  PARTITA_MPI(Type_size_x(datatype, &size_bytes));
  const auto element = element_of(datatype, size_bytes);
  if (!element) {
    throw Error(
        ErrorClass::type,
        "argument datatype is one that GPUs do not compute with, and the buffers are GPU memory; expected is an "
        "integer of up to 8 bytes, a floating-point or complex number whose parts have 4 or 8 bytes, a pair of "
        "them, or buffers in host memory");
  }
  return {*element, *by, size_bytes};
}

}  // namespace partita::collective
