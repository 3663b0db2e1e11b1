#include "capi/small_floats.hpp"

#include <partita/partita.h>

#include "core/mpi_check.hpp"

MPI_Datatype Partita_FLOAT16 = MPI_DATATYPE_NULL;
MPI_Datatype Partita_BFLOAT16 = MPI_DATATYPE_NULL;

namespace partita::capi {

void make_small_floats() {
  for (MPI_Datatype* datatype : {&Partita_FLOAT16, &Partita_BFLOAT16}) {
    PARTITA_MPI(Type_contiguous(1, MPI_UINT16_T, datatype));
    PARTITA_MPI(Type_commit(datatype));
  }
}

void free_small_floats() {
  for (MPI_Datatype* datatype : {&Partita_FLOAT16, &Partita_BFLOAT16}) {
    if (*datatype != MPI_DATATYPE_NULL) PARTITA_MPI(Type_free(datatype));
  }
}

collective::SmallFloat small_float_of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return collective::SmallFloat::none;
  if (datatype == Partita_FLOAT16) return collective::SmallFloat::float16;
  if (datatype == Partita_BFLOAT16) return collective::SmallFloat::bfloat16;
  return collective::SmallFloat::none;
}

}  // namespace partita::capi
