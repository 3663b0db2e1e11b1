// MPI_Error_string (MPI-4, section 9.4): the sentence where the error is one of Partita's.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"

using namespace partita::dropin;

extern "C" {

INTERPOSE(Error_string)(int errorcode, char* string, int* resultlen) {
  // Also before MPI_Init and after MPI_Finalize, whose own error is asked for then. Partita asks the MPI for texts that
  // are not its own, which it reaches once the drop-in has found it.
  const bool answerable = string != nullptr && resultlen != nullptr;
  const Native& found = native();
  return answerable ? Partita_Error_string(errorcode, string, resultlen)
                    : found.Error_string(errorcode, string, resultlen);
}

}  // extern "C"
