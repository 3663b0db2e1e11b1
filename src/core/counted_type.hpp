// Any number of elements for calls of the MPI's whose count is an int.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>

#include "core/mpi_check.hpp"

namespace partita {

/// `count` elements of a datatype in a row, as an int and a datatype: the given ones where the count is an int, else
/// one element of a datatype that holds all of them. Lives as long as this; messages under way keep what they need.
class CountedType {
 public:
  explicit CountedType(std::int64_t count, MPI_Datatype of = MPI_BYTE) : type_(of) {
    if (count <= std::numeric_limits<int>::max()) {
      count_ = static_cast<int>(count);
      return;
    }
    const int chunk = 1 << 30;
    MPI_Count lower_bound = 0;
    MPI_Count extent = 0;
    PARTITA_MPI(Type_get_extent_x(of, &lower_bound, &extent));
    int lengths[2] = {static_cast<int>(count / chunk), static_cast<int>(count % chunk)};
    MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(count / chunk * chunk * extent)};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, of};
    PARTITA_MPI(Type_contiguous(chunk, of, &types[0]));
    PARTITA_MPI(Type_create_struct(2, lengths, offsets, types, &type_));
    is_own_ = true;
    PARTITA_MPI(Type_commit(&type_));
    PARTITA_MPI(Type_free(&types[0]));
    count_ = 1;
  }
  ~CountedType() {
    if (is_own_) native::Type_free(&type_);
  }
  CountedType(const CountedType&) = delete;
  CountedType& operator=(const CountedType&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_;
  bool is_own_ = false;
};

}  // namespace partita
