// The ⊕ of a reduction.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace partita::collective {

/// Numbers that a reduction computes by itself, with MPI_SUM, MPI_PROD, MPI_MAX and MPI_MIN: in floats, rounded to the
/// nearest.
enum class SmallFloat : std::uint8_t { none, float16, bfloat16 };

/// An operation of the MPI's, predefined or the program's, on elements of a datatype. The program frees neither before
/// the request: an MPI_Op cannot be duplicated.
class Reduction {
 public:
  /// None.
  Reduction() = default;
  Reduction(MPI_Op op, MPI_Datatype datatype, SmallFloat format) : op_(op), datatype_(datatype), format_(format) {}

  bool exists() const { return op_ != MPI_OP_NULL; }
  MPI_Op op() const { return op_; }
  MPI_Datatype datatype() const { return datatype_; }
  SmallFloat format() const { return format_; }
  /// to = from ⊕ to, of `bytes` bytes of whole elements.
  void apply(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t unit_bytes) const;

 private:
  MPI_Op op_ = MPI_OP_NULL;
  MPI_Datatype datatype_ = MPI_DATATYPE_NULL;
  SmallFloat format_ = SmallFloat::none;
};

}  // namespace partita::collective
