// MPI_Error_string (MPI-4, section 9.4): the sentence where the error is one of Partita's.
#include <mpi.h>
#include <partita/partita.h>

extern "C" {

PARTITA_EXPORT int MPI_Error_string(int errorcode, char* string, int* resultlen) {
  // Also before MPI_Init and after MPI_Finalize, whose own error is asked for then.
  const bool answerable = string != nullptr && resultlen != nullptr;
  return answerable ? Partita_Error_string(errorcode, string, resultlen)
                    : PMPI_Error_string(errorcode, string, resultlen);
}

}  // extern "C"
