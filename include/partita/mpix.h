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

/** Partita_Pbuf_prepare on a request of MPI_Psend_init or MPI_Precv_init (gpu-initiated-partitioned-mpi, section
 * II-B.2). */
PARTITA_EXPORT int Partita_mpi_Pbuf_prepare(MPI_Request request);
#define MPIX_Pbuf_prepare Partita_mpi_Pbuf_prepare

/** Partita_Pbuf_prepareall on such requests. */
PARTITA_EXPORT int Partita_mpi_Pbuf_prepareall(int count, MPI_Request requests[]);
#define MPIX_Pbuf_prepareall Partita_mpi_Pbuf_prepareall

/** What became of a request of MPI_Psend_init or MPI_Precv_init: Partita_Request_get_info. */
PARTITA_EXPORT int Partita_mpi_Request_get_info(MPI_Request request, MPI_Info* info);

#ifdef __cplusplus
}
#endif
#endif
