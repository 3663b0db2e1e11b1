#include "collective/gpu_reduction.hpp"

#include <optional>

#include "collective/datatypes.hpp"
#include "core/error.hpp"
#include "core/mpi_check.hpp"

namespace partita::collective {
namespace {

using namespace datatypes;
using memory::Combine;
using memory::Element;

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
  return has(signed_c_integers(), datatype) || has(multi_language_types(), datatype) ||
         has(fortran_integers(), datatype);
}

/// Truth values and bytes as well.
bool is_unsigned_integer(MPI_Datatype datatype) {
  return has(unsigned_c_integers(), datatype) || has(logicals(), datatype) || has(bytes(), datatype);
}

/// Numbers of other sizes than these have no element: GPUs do not compute with them.
std::optional<Element> element_of(SmallFloat format, MPI_Datatype datatype, MPI_Count size_bytes) {
  if (format == SmallFloat::float16) return Element::f16;
  if (format == SmallFloat::bfloat16) return Element::bf16;
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
  } else if (has(reals(), datatype)) {
    if (size_bytes == 4) return Element::f32;
    if (size_bytes == 8) return Element::f64;
  } else if (has(complexes(), datatype)) {
    if (size_bytes == 8) return Element::complex_f32;
    if (size_bytes == 16) return Element::complex_f64;
  } else if (datatype == MPI_FLOAT_INT) {
    return Element::pair_f32_i32;
  } else if (datatype == MPI_2INT || datatype == MPI_2INTEGER) {
    if (size_bytes == 8) return Element::pair_i32;
  } else if (datatype == MPI_2REAL) {
    if (size_bytes == 8) return Element::pair_f32;
  } else if (datatype == MPI_2DOUBLE_PRECISION) {
    if (size_bytes == 16) return Element::pair_f64;
  }
  return {};
}

}  // namespace

GpuReduction gpu_reduction(const Reduction& reduction) {
  const MPI_Datatype datatype = reduction.datatype();
  const auto by = combine_of(reduction.op());
  if (!by) {
    throw Error(ErrorClass::op,
                "argument op is an operation of the program's, which runs on the host, and the buffers are GPU memory; "
                "expected is a predefined operation, or buffers in host memory");
  }
  MPI_Count size_bytes = 0;
  PARTITA_MPI(Type_size_x(datatype, &size_bytes));
  const auto element = element_of(reduction.format(), datatype, size_bytes);
  if (!element) {
    throw Error(
        ErrorClass::type,
        "argument datatype is one that GPUs do not compute with, and the buffers are GPU memory; expected is an "
        "integer of up to 8 bytes, a floating-point or complex number whose parts have 4 or 8 bytes, one of "
        "Partita_FLOAT16 and Partita_BFLOAT16, a pair of them, or buffers in host memory");
  }
  return {*element, *by, size_bytes};
}

}  // namespace partita::collective
