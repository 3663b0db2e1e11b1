// Messages of a datatype with gaps, whose ints are written and compared by hosts and kernels.
#pragma once

#include <mpi.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::test {

/// An element has `2 * ints` ints, and the first half of them moves.
struct GappedMessage {
  int ints;
  int sent, received;  ///< partitions
  int elements;        ///< a multiple of both

  PARTITA_HOST_DEVICE int all_ints() const { return 2 * ints * elements; }
  PARTITA_HOST_DEVICE int ints_of_partition(int partitions) const { return all_ints() / partitions; }
  PARTITA_HOST_DEVICE bool moves(int at) const { return at % (2 * ints) < ints; }
  /// The int at `at`, as `sender` writes it.
  static PARTITA_HOST_DEVICE int value(int epoch, int sender, int at) {
    return epoch * 10'000'000 + sender * 1'000'000 + at;
  }

  /// That of an element, committed. The caller frees it.
  MPI_Datatype make_type() const {
    MPI_Datatype packed = MPI_DATATYPE_NULL, padded = MPI_DATATYPE_NULL;
    PMPI_Type_contiguous(ints, MPI_INT, &packed);
    PMPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(2 * sizeof(int)) * ints, &padded);
    PMPI_Type_commit(&padded);
    PMPI_Type_free(&packed);
    return padded;
  }
};

}  // namespace partita::test
