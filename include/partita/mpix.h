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

/* Partitioned collectives (gpu-initiated-partitioned-mpi, section IV-B): as Partita_Pbcast_init and the others, on an
 * MPI_Request that every call on requests takes. */
PARTITA_EXPORT int Partita_mpi_Pbcast_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype,
                                           int root, MPI_Comm comm, MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                            MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                            MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                                            MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                             MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                             const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
                                             MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pscatter_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                             MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                             MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                                             MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pscatterv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                              const MPI_Aint displs[], MPI_Datatype sendtype, void* recvbuf,
                                              MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                              MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pallgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                               MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                               MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                               MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pallgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                                const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                                MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Palltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                              MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                              MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                              MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Palltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                               const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                               const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                               MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                               MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Palltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                               const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                               const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                               const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                               MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Preduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                            MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Info info,
                                            MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pallreduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                               MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Preduce_scatter_init(const void* sendbuf, void* recvbuf, int partitions,
                                                    const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
                                                    MPI_Comm comm, MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Preduce_scatter_block_init(const void* sendbuf, void* recvbuf, int partitions,
                                                          MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                                          MPI_Comm comm, MPI_Info info, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                          MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pexscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                            MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pneighbor_allgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                        MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                        MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pneighbor_allgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                         MPI_Datatype sendtype, void* recvbuf,
                                                         const MPI_Count recvcounts[], const MPI_Aint displs[],
                                                         MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                         MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pneighbor_alltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                       MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                       MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                       MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pneighbor_alltoallv_init(const void* sendbuf, int partitions,
                                                        const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                                        MPI_Datatype sendtype, void* recvbuf,
                                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                        MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Pneighbor_alltoallw_init(const void* sendbuf, int partitions,
                                                        const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                                        const MPI_Datatype sendtypes[], void* recvbuf,
                                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                        const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                                        MPI_Request* request);

#define MPIX_Pbcast_init Partita_mpi_Pbcast_init
#define MPIX_Pgather_init Partita_mpi_Pgather_init
#define MPIX_Pgatherv_init Partita_mpi_Pgatherv_init
#define MPIX_Pscatter_init Partita_mpi_Pscatter_init
#define MPIX_Pscatterv_init Partita_mpi_Pscatterv_init
#define MPIX_Pallgather_init Partita_mpi_Pallgather_init
#define MPIX_Pallgatherv_init Partita_mpi_Pallgatherv_init
#define MPIX_Palltoall_init Partita_mpi_Palltoall_init
#define MPIX_Palltoallv_init Partita_mpi_Palltoallv_init
#define MPIX_Palltoallw_init Partita_mpi_Palltoallw_init
#define MPIX_Preduce_init Partita_mpi_Preduce_init
#define MPIX_Pallreduce_init Partita_mpi_Pallreduce_init
#define MPIX_Preduce_scatter_init Partita_mpi_Preduce_scatter_init
#define MPIX_Preduce_scatter_block_init Partita_mpi_Preduce_scatter_block_init
#define MPIX_Pscan_init Partita_mpi_Pscan_init
#define MPIX_Pexscan_init Partita_mpi_Pexscan_init
#define MPIX_Pneighbor_allgather_init Partita_mpi_Pneighbor_allgather_init
#define MPIX_Pneighbor_allgatherv_init Partita_mpi_Pneighbor_allgatherv_init
#define MPIX_Pneighbor_alltoall_init Partita_mpi_Pneighbor_alltoall_init
#define MPIX_Pneighbor_alltoallv_init Partita_mpi_Pneighbor_alltoallv_init
#define MPIX_Pneighbor_alltoallw_init Partita_mpi_Pneighbor_alltoallw_init

/* Matching for good, and queues (cpu-free-stream-triggered-mpi, section III): as Partita_Match and the others, on the
 * requests of MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Recv_init and of MPI_Allreduce_init
 * and its like too. The MPI moves these, where it has such calls, until they are matched; then Partita does, and the
 * call that matches them, or begins to, puts other handles into its arguments. */
typedef Partita_Queue MPIX_Queue;
typedef Partita_Queue_type MPIX_Queue_type;
#define MPIX_QUEUE_NULL PARTITA_QUEUE_NULL
#define MPIX_QUEUE_HOST PARTITA_QUEUE_HOST
#define MPIX_QUEUE_CUDA PARTITA_QUEUE_CUDA

PARTITA_EXPORT int Partita_mpi_Match(MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Matchall(int count, MPI_Request requests[]);
PARTITA_EXPORT int Partita_mpi_Imatch(MPI_Request* request, MPI_Request* matching);
PARTITA_EXPORT int Partita_mpi_Imatchall(int count, MPI_Request requests[], MPI_Request* matching);
PARTITA_EXPORT int Partita_mpi_Is_matched(MPI_Request request, int* flag);
PARTITA_EXPORT int Partita_mpi_Queue_init(MPIX_Queue* queue, MPIX_Queue_type type, void* stream);
PARTITA_EXPORT int Partita_mpi_Queue_free(MPIX_Queue* queue);
PARTITA_EXPORT int Partita_mpi_Queue_wait(MPIX_Queue queue);
PARTITA_EXPORT int Partita_mpi_Enqueue_start(MPIX_Queue queue, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]);
PARTITA_EXPORT int Partita_mpi_Enqueue_wait(MPIX_Queue queue, MPI_Request* request);
PARTITA_EXPORT int Partita_mpi_Enqueue_waitall(MPIX_Queue queue, int count, MPI_Request requests[]);
PARTITA_EXPORT int Partita_mpi_Queue_completion(MPI_Request request, MPIX_Completion* completion);

#define MPIX_Match Partita_mpi_Match
#define MPIX_Matchall Partita_mpi_Matchall
#define MPIX_Imatch Partita_mpi_Imatch
#define MPIX_Imatchall Partita_mpi_Imatchall
#define MPIX_Is_matched Partita_mpi_Is_matched
#define MPIX_Queue_init Partita_mpi_Queue_init
#define MPIX_Queue_free Partita_mpi_Queue_free
#define MPIX_Queue_wait Partita_mpi_Queue_wait
#define MPIX_Enqueue_start Partita_mpi_Enqueue_start
#define MPIX_Enqueue_startall Partita_mpi_Enqueue_startall
#define MPIX_Enqueue_wait Partita_mpi_Enqueue_wait
#define MPIX_Enqueue_waitall Partita_mpi_Enqueue_waitall
#define MPIX_Queue_completion Partita_mpi_Queue_completion

/** What became of a request of MPI_Psend_init or MPI_Precv_init: Partita_Request_get_info. */
PARTITA_EXPORT int Partita_mpi_Request_get_info(MPI_Request request, MPI_Info* info);

#ifdef __cplusplus
}
#endif
#endif
