// MPI_Wait, MPI_Test and MPI_Request_get_status (MPI-4, sections 3.7.3 and 3.7.6).
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/polling.hpp"
#include "dropin/requests.hpp"

using namespace partita::dropin;

extern "C" {

PARTITA_EXPORT int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (request_table().empty()) return PMPI_Wait(request, status);
  if (Partita_Request found = ours(request); found != PARTITA_REQUEST_NULL) return Partita_Wait(&found, status);
  return progress_by_caller() && request != nullptr ? wait_polling(request, status) : PMPI_Wait(request, status);
}

PARTITA_EXPORT int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (request_table().empty()) return PMPI_Test(request, flag, status);
  if (Partita_Request found = ours(request); found != PARTITA_REQUEST_NULL) return Partita_Test(&found, flag, status);
  progress_if_by_caller();
  return PMPI_Test(request, flag, status);
}

PARTITA_EXPORT int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (request_table().empty()) return PMPI_Request_get_status(request, flag, status);
  const Partita_Request found = ours(request);
  if (found != PARTITA_REQUEST_NULL) return Partita_Request_get_status(found, flag, status);
  progress_if_by_caller();
  return PMPI_Request_get_status(request, flag, status);
}

}  // extern "C"
