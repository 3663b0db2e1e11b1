#include "capi/operators.hpp"

#include <string_view>
#include <vector>

#include "capi/small_floats.hpp"
#include "core/error.hpp"

namespace partita::capi {
namespace {

using Types = std::vector<MPI_Datatype>;

const Types& c_integers() {
  static const Types types = {
      MPI_INT,         MPI_LONG,          MPI_SHORT,     MPI_UNSIGNED_SHORT,
      MPI_UNSIGNED,    MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG,
      MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_INT8_T,    MPI_INT16_T,
      MPI_INT32_T,     MPI_INT64_T,       MPI_UINT8_T,   MPI_UINT16_T,
      MPI_UINT32_T,    MPI_UINT64_T,
  };
  return types;
}

/// Those of a size are not in every MPI.
const Types& fortran_integers() {
  static const Types types = {
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
#if defined(MPI_INTEGER16)
      MPI_INTEGER16,
#endif
  };
  return types;
}

const Types& multi_language_types() {
  static const Types types = {MPI_AINT, MPI_OFFSET, MPI_COUNT};
  return types;
}

const Types& reals() {
  static const Types types = {
      MPI_FLOAT,  MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION,
#if defined(MPI_REAL2)
      MPI_REAL2,
#endif
#if defined(MPI_REAL4)
      MPI_REAL4,
#endif
#if defined(MPI_REAL8)
      MPI_REAL8,
#endif
#if defined(MPI_REAL16)
      MPI_REAL16,
#endif
  };
  return types;
}

const Types& logicals() {
  static const Types types = {MPI_C_BOOL, MPI_LOGICAL, MPI_CXX_BOOL};
  return types;
}

const Types& complexes() {
  static const Types types = {
      MPI_C_COMPLEX,      MPI_C_FLOAT_COMPLEX,   MPI_C_DOUBLE_COMPLEX,   MPI_C_LONG_DOUBLE_COMPLEX,   MPI_COMPLEX,
      MPI_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX,
  };
  return types;
}

const Types& bytes() {
  static const Types types = {MPI_BYTE};
  return types;
}

const Types& pairs() {
  static const Types types = {MPI_FLOAT_INT,       MPI_DOUBLE_INT, MPI_LONG_INT,          MPI_2INT,    MPI_SHORT_INT,
                              MPI_LONG_DOUBLE_INT, MPI_2REAL,      MPI_2DOUBLE_PRECISION, MPI_2INTEGER};
  return types;
}

bool has(const Types& types, MPI_Datatype datatype) {
  for (const MPI_Datatype each : types) {
    if (each == datatype && each != MPI_DATATYPE_NULL) return true;
  }
  return false;
}

struct Operator {
  MPI_Op op;
  std::string_view name;
  std::vector<const Types*> takes;
  std::string_view expected;
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = [] {
    const std::vector<const Types*> ordered = {&c_integers(), &fortran_integers(), &multi_language_types(), &reals()};
    const std::vector<const Types*> numbers = {&c_integers(), &fortran_integers(), &multi_language_types(), &reals(),
                                               &complexes()};
    const std::vector<const Types*> truths = {&c_integers(), &logicals()};
    const std::vector<const Types*> bits = {&c_integers(), &fortran_integers(), &multi_language_types(), &bytes()};
    const std::vector<const Types*> places = {&pairs()};
    constexpr std::string_view an_ordered = "an integer or floating-point type";
    constexpr std::string_view a_number = "an integer, floating-point or complex type";
    constexpr std::string_view a_truth = "an integer type of C or a logical type";
    constexpr std::string_view a_bit = "an integer type or MPI_BYTE";
    constexpr std::string_view a_pair = "a type of a value and an index, as MPI_DOUBLE_INT";
    return std::vector<Operator>{
        {MPI_MAX, "MPI_MAX", ordered, an_ordered},  {MPI_MIN, "MPI_MIN", ordered, an_ordered},
        {MPI_SUM, "MPI_SUM", numbers, a_number},    {MPI_PROD, "MPI_PROD", numbers, a_number},
        {MPI_LAND, "MPI_LAND", truths, a_truth},    {MPI_LOR, "MPI_LOR", truths, a_truth},
        {MPI_LXOR, "MPI_LXOR", truths, a_truth},    {MPI_BAND, "MPI_BAND", bits, a_bit},
        {MPI_BOR, "MPI_BOR", bits, a_bit},          {MPI_BXOR, "MPI_BXOR", bits, a_bit},
        {MPI_MAXLOC, "MPI_MAXLOC", places, a_pair}, {MPI_MINLOC, "MPI_MINLOC", places, a_pair},
    };
  }();
  return all;
}

}  // namespace

bool check_operator(MPI_Op op, MPI_Datatype datatype) {
  if (op == MPI_OP_NULL) throw Error(ErrorClass::op, "argument op is MPI_OP_NULL; expected is a reduction operation");
  if (op == MPI_REPLACE || op == MPI_NO_OP) {
    throw Error(ErrorClass::op, "argument op is MPI_REPLACE or MPI_NO_OP, which are for one-sided communication only");
  }
  for (const Operator& each : operators()) {
    if (each.op != op) continue;
    for (const Types* types : each.takes) {
      const bool is_small_float = types == &reals() && small_float_of(datatype) != collective::SmallFloat::none;
      if (is_small_float || has(*types, datatype)) return true;
    }
    throw Error(ErrorClass::op, "argument op is {}, which does not go with argument datatype; expected is {}",
                each.name, each.expected);
  }
  return false;
}

}  // namespace partita::capi
