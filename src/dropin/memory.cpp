// MPI_Alloc_mem and MPI_Free_mem (MPI-4, section 9.2): memory into which the other ranks of the node can write.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"

using namespace partita::dropin;

namespace {

/// Whether Partita allocates: it runs, and the caller asks for nothing particular that only the MPI understands.
bool is_for_partita(MPI_Aint size, MPI_Info info, const void* baseptr) {
  int runs = 0;
  if (size <= 0 || baseptr == nullptr || Partita_Initialized(&runs) != MPI_SUCCESS || runs == 0) return false;
  int keys = 0;
  return info == MPI_INFO_NULL || (native().Info_get_nkeys(info, &keys) == MPI_SUCCESS && keys == 0);
}

}  // namespace

extern "C" {

INTERPOSE(Alloc_mem)(MPI_Aint size, MPI_Info info, void* baseptr) {
  const Calling calling(__func__);
  return is_for_partita(size, info, baseptr) ? Partita_Alloc(size, info, baseptr)
                                             : native().Alloc_mem(size, info, baseptr);
}

INTERPOSE(Free_mem)(void* base) {
  const Calling calling(__func__);
  int is_ours = 0;
  if (Partita_Is_allocated(base, &is_ours) == MPI_SUCCESS && is_ours != 0) return Partita_Free(base);
  return native().Free_mem(base);
}

}  // extern "C"
