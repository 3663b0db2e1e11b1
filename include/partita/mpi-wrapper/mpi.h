/* The MPI's own mpi.h, and after it the calls of MPI-4 that libpartita_mpi brings to an MPI whose header lacks
 * them. The compile flags of partita-mpi put this folder first. */
#ifndef PARTITA_MPI_WRAPPER_MPI_H
#define PARTITA_MPI_WRAPPER_MPI_H

#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include_next <mpi.h>

/* Open MPI 5 has them, though it calls itself 3.1; its MPI_Pready_list takes the list without const. */
#if MPI_VERSION < 4 && !(defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#ifdef __cplusplus
extern "C" {
#endif

/* MPI-4, section 4.2. */
int MPI_Psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPI_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPI_Pready(int partition, MPI_Request request);
int MPI_Pready_range(int partition_low, int partition_high, MPI_Request request);
int MPI_Pready_list(int length, const int array_of_partitions[], MPI_Request request);
int MPI_Parrived(MPI_Request request, int partition, int* flag);

#ifdef __cplusplus
}
#endif
#endif
#endif
