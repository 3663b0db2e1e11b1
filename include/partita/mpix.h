/* The calls of the papers and of the MPI Forum's proposals, on the plain MPI_Request, for programs that link
 * libpartita_mpi. They are names of the source only: the symbols behind them carry the project's prefix, so that they
 * never clash with an MPI that has calls of the same name with other signatures. */
#ifndef PARTITA_MPIX_H
#define PARTITA_MPIX_H

#include <mpi.h>
#include <partita/partita.h>

#ifdef __cplusplus
extern "C" {
#endif

PARTITA_EXPORT int Partita_mpi_Pbuf_prepare(MPI_Request request);
PARTITA_EXPORT int Partita_mpi_Pbuf_prepareall(int count, MPI_Request requests[]);
PARTITA_EXPORT int Partita_mpi_Prequest_create(Partita_Prequest* prequest, MPI_Request request);
PARTITA_EXPORT int Partita_mpi_Prequest_free(Partita_Prequest* prequest);

/** Partita_Pbuf_prepare on a request of MPI_Psend_init or MPI_Precv_init (gpu-initiated-partitioned-mpi, section
 * II-B.2). A function of the source only and no macro, since kernels have a call of the same name (partita/device.cuh).
 */
static inline int MPIX_Pbuf_prepare(MPI_Request request) {
  return Partita_mpi_Pbuf_prepare(request);
}

/** Partita_Pbuf_prepareall on such requests. */
static inline int MPIX_Pbuf_prepareall(int count, MPI_Request requests[]) {
  return Partita_mpi_Pbuf_prepareall(count, requests);
}

/** Partita_Prequest_create on such a request. */
static inline int MPIX_Prequest_create(MPIX_Prequest* prequest, MPI_Request request) {
  return Partita_mpi_Prequest_create(prequest, request);
}

/** Partita_Prequest_free. */
static inline int MPIX_Prequest_free(MPIX_Prequest* prequest) {
  return Partita_mpi_Prequest_free(prequest);
}

/** What became of a request of MPI_Psend_init or MPI_Precv_init: Partita_Request_get_info. */
PARTITA_EXPORT int Partita_mpi_Request_get_info(MPI_Request request, MPI_Info* info);

#ifdef __cplusplus
}
#endif
#endif
