// MPI_Error_string (MPI-4, section 9.4): the sentence where the error is one of Partita's.
#include <mpi.h>
#include <partita/partita.h>

extern "C" {

PARTITA_EXPORT int MPI_Error_string(int errorcode, char* string, int* resultlen) {
  int runs = 0;
  const bool ours = Partita_Initialized(&runs) == MPI_SUCCESS && runs != 0 && string != nullptr && resultlen != nullptr;
  return ours ? Partita_Error_string(errorcode, string, resultlen) : PMPI_Error_string(errorcode, string, resultlen);
}

}  // extern "C"
