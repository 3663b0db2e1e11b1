#include "capi/operators.hpp"

#include <string_view>
#include <vector>

#include "capi/small_floats.hpp"
#include "collective/datatypes.hpp"
#include "core/error.hpp"

namespace partita::capi {
namespace {

using namespace collective::datatypes;

struct Operator {
  MPI_Op op;
  std::string_view name;
  std::vector<const Types*> takes;
  std::string_view expected;
};

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = [] {
    const std::vector<const Types*> ordered = {&signed_c_integers(), &unsigned_c_integers(), &fortran_integers(),
                                               &multi_language_types(), &reals()};
    const std::vector<const Types*> numbers = {
        &signed_c_integers(), &unsigned_c_integers(), &fortran_integers(), &multi_language_types(), &reals(),
        &complexes()};
    const std::vector<const Types*> truths = {&signed_c_integers(), &unsigned_c_integers(), &logicals()};
    const std::vector<const Types*> bits = {&signed_c_integers(), &unsigned_c_integers(), &fortran_integers(),
                                            &multi_language_types(), &bytes()};
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
