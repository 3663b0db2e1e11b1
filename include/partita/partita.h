/* Partita: partitioned MPI communication that CPU threads, GPU kernels and GPU streams drive themselves.
 *
 * The C API. Every call returns an MPI error code (MPI_SUCCESS or a code whose class is a predefined MPI
 * error class) after passing it to the error handler of the communicator concerned, as an MPI call does.
 * The sentence behind the last error of the calling thread is given by Partita_Error_string.
 * One page per call stands in docs/api/. */
#ifndef PARTITA_PARTITA_H
#define PARTITA_PARTITA_H

#include <mpi.h>
#include <partita/device/completion.h>
#include <partita/device/prequest.h>

#define PARTITA_VERSION_MAJOR 0
#define PARTITA_VERSION_MINOR 1
#define PARTITA_VERSION_PATCH 0

#if defined(__GNUC__)
#define PARTITA_EXPORT __attribute__((visibility("default")))
#else
#define PARTITA_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A persistent request: a partitioned one, or an ordinary send, receive or collective; or that of Partita_Imatch. */
typedef struct Partita_RequestImpl* Partita_Request;
#define PARTITA_REQUEST_NULL ((Partita_Request)0)

/** Starts and waits of requests, in the order of a stream. */
typedef struct Partita_QueueImpl* Partita_Queue;
#define PARTITA_QUEUE_NULL ((Partita_Queue)0)

/** What the stream of a queue is: PARTITA_QUEUE_HOST, the thread that calls; PARTITA_QUEUE_CUDA, a CUDA stream. */
typedef enum { PARTITA_QUEUE_HOST = 1, PARTITA_QUEUE_CUDA = 2 } Partita_Queue_type;

/** Floating-point numbers of 16 bits: IEEE 754's binary16, and bfloat16, the upper half of a binary32. From
 *  Partita_Init to Partita_Finalize they are committed datatypes of MPI's, which partitioned reductions take with
 * MPI_SUM, MPI_PROD, MPI_MAX and MPI_MIN; before and after that MPI_DATATYPE_NULL. */
PARTITA_EXPORT extern MPI_Datatype Partita_FLOAT16;
PARTITA_EXPORT extern MPI_Datatype Partita_BFLOAT16;

/* ---- Runtime ------------------------------------------------------------------------------------------- */

/** Starts the runtime over the processes of `world`. Collective over `world`; a second call is a no-op.
 *  Blocks until all ranks have called it. MPI must be initialised. `world` stays the caller's. */
PARTITA_EXPORT int Partita_Init(MPI_Comm world);

/** Sets `*flag` to 1 between Partita_Init and Partita_Finalize, else to 0. Any thread, any time. */
PARTITA_EXPORT int Partita_Initialized(int* flag);

/** Ends the runtime. Collective over the communicator given to Partita_Init; call before MPI_Finalize.
 *  Drains what is unmatched. Live requests are an error (MPI_ERR_REQUEST); they are released all the same. */
PARTITA_EXPORT int Partita_Finalize(void);

/** The library's version, which may be newer than the header's PARTITA_VERSION_*. */
PARTITA_EXPORT int Partita_Get_version(int* major, int* minor, int* patch);

/** Lets the runtime take the host steps that wait to be taken (setup answers, deferred and engine transfers).
 *  Never blocks. Needed only with PARTITA_PROGRESS=caller or below MPI_THREAD_MULTIPLE in long stretches
 *  without another Partita call. Sets `*pending` (may be NULL) to 1 if steps remain; where it is 0, the caller sees
 *  what the steps have done, other threads' too. */
PARTITA_EXPORT int Partita_Progress(int* pending);

/** The sentence behind the last error `code` on the calling thread; for other codes, the MPI's own text.
 *  `string` holds MPI_MAX_ERROR_STRING characters. */
PARTITA_EXPORT int Partita_Error_string(int code, char* string, int* length);

/** Reports an error that a layer on top of Partita has found, as Partita reports its own: `sentence` is kept for
 *  Partita_Error_string and the error handler of `comm` is called with the code of `error_class`, one of the
 *  predefined classes. Returns that code if the handler returns. A null sentence is an error itself (MPI_ERR_ARG). */
PARTITA_EXPORT int Partita_Raise(MPI_Comm comm, int error_class, const char* sentence);

/* ---- Memory -------------------------------------------------------------------------------------------- */

/** Allocates `size_bytes` of host memory that the other ranks of the node can map, so that link `direct`
 *  writes into it without a copy. Page-aligned, zeroed. Local. `*(void **)baseptr` receives the address. */
PARTITA_EXPORT int Partita_Alloc(MPI_Aint size_bytes, MPI_Info info, void* baseptr);

/** Frees memory of Partita_Alloc. Free the requests on it first. */
PARTITA_EXPORT int Partita_Free(void* base);

/** Sets `*flag` to 1 if `base` was returned by Partita_Alloc and not freed since, else to 0. */
PARTITA_EXPORT int Partita_Is_allocated(const void* base, int* flag);

/* ---- Communicators ------------------------------------------------------------------------------------- */

/** Makes `comm` known, so that requests can be made on it. Collective over `comm`, which MPI_COMM_WORLD, MPI_COMM_SELF
 * and the communicator given to Partita_Init do not need. Blocks. A second call on the same communicator is a no-op. */
PARTITA_EXPORT int Partita_Comm_register(MPI_Comm comm);

/** The same without communication, for a constructor that was collective over the known communicator
 *  `parent`: every process of `parent` calls it once for each such constructor, in the same order, with its own result
 * (MPI_COMM_NULL where it got none). `comm` need not be complete yet (MPI_Comm_idup). Where `parent` is not known,
 * `comm` stays unknown: no error. */
PARTITA_EXPORT int Partita_Comm_derive(MPI_Comm parent, MPI_Comm comm);

/** Sets what the keys of `info` say of calls on `comm`, which is known, on this rank. Info key: partita_stream, behind
 * which stream of the program's calls of the MPI's on GPU memory come: "none", "legacy", "per-thread", or the handle of
 * a CUDA stream as a hexadecimal number ("0x…", as printf writes it for %p). Calls that follow come behind what the
 * stream has been given before; the stream outlives them. A key that is not there leaves its value as it is. Local. */
PARTITA_EXPORT int Partita_Comm_set_info(MPI_Comm comm, MPI_Info info);

/* ---- Partitioned point-to-point (MPI-4, sections 4.2.1 to 4.2.4) ---------------------------------------- */

/** Makes a persistent partitioned send of `partitions` × `count` elements of `datatype`. Local, never blocks.
 *  Matches by (comm, rank, tag, order of init) with one Partita_Precv_init of the same total size; the
 *  numbers of partitions may differ. `dest` may be MPI_PROC_NULL. Info keys: partita_link,
 * partita_transport_partitions; for GPU memory partita_driver, partita_gpu_copy, partita_in_place. */
PARTITA_EXPORT int Partita_Psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                                      int tag, MPI_Comm comm, MPI_Info info, Partita_Request* request);

/** The receiving side of Partita_Psend_init. No wildcards. */
PARTITA_EXPORT int Partita_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                                      int tag, MPI_Comm comm, MPI_Info info, Partita_Request* request);

/** Opens an epoch of an inactive request. Local, never blocks. */
PARTITA_EXPORT int Partita_Start(Partita_Request* request);
/** Partita_Start for each of `count` requests. */
PARTITA_EXPORT int Partita_Startall(int count, Partita_Request requests[]);

/** Marks partition `partition` of an active send: its bytes may travel from now on and must not change before
 *  the request completes. Once per partition and epoch. Any thread, several at once. Never blocks. */
PARTITA_EXPORT int Partita_Pready(int partition, Partita_Request request);
/** Marks `first` to `last`, both included. */
PARTITA_EXPORT int Partita_Pready_range(int first, int last, Partita_Request request);
/** Marks the `length` partitions named in `partitions`. */
PARTITA_EXPORT int Partita_Pready_list(int length, const int partitions[], Partita_Request request);

/** Sets `*flag` to 1 if partition `partition` of a receive lies in its buffer, else to 0. Any thread, several
 *  at once. On an inactive request the flag is 1. Never blocks; makes progress. */
PARTITA_EXPORT int Partita_Parrived(Partita_Request request, int partition, int* flag);

/** Blocks until every Pready of the open epoch moves its bytes at once: on a send, until the receiver has started the
 *  same epoch (link `mpi`, where the MPI keeps early messages: until it is matched); on a receive, until it is matched.
 * Optional on the host (gpu-initiated-partitioned-mpi, section II-B.2). */
PARTITA_EXPORT int Partita_Pbuf_prepare(Partita_Request request);
/** Partita_Pbuf_prepare for each of `count` requests, together. */
PARTITA_EXPORT int Partita_Pbuf_prepareall(int count, Partita_Request requests[]);

/* ---- Partitioned collectives (gpu-initiated-partitioned-mpi, section IV-B) --------------------------------
 *
 * Persistent, as MPI-4's collectives of the same name are, and partitioned: `partitions` is the same on all ranks, a
 * count is that of one partition, and a block of a buffer is `partitions` x count elements, of which partition p is
 * the p-th slice. A rank that has data to send marks its partitions (Partita_Pready); each partition goes its way by
 * itself, and Partita_Parrived tells, where data arrive, whether it is through. Collective over `comm`, an
 * intracommunicator: all ranks make their requests in the same order. The init calls never block. Displacements count
 * elements, in the w forms bytes. MPI_IN_PLACE as in MPI. Host or GPU memory. Info keys: partita_link,
 * partita_algorithm, partita_driver (host). One page for all: docs/api/Partita_Pcollective_init.md. */

PARTITA_EXPORT int Partita_Pbcast_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int root,
                                       MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                        void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                        MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                         MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                         const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
                                         MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pscatter_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                         MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                         MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                                         Partita_Request* request);
PARTITA_EXPORT int Partita_Pscatterv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                          const MPI_Aint displs[], MPI_Datatype sendtype, void* recvbuf,
                                          MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                          MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pallgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                           MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                           MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                           Partita_Request* request);
PARTITA_EXPORT int Partita_Pallgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                            MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                            const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                            MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Palltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                          MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                          MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                          Partita_Request* request);
PARTITA_EXPORT int Partita_Palltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                           const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                           const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                           MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                           Partita_Request* request);
PARTITA_EXPORT int Partita_Palltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                           const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                           const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                           const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                           Partita_Request* request);
PARTITA_EXPORT int Partita_Preduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                        MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Info info,
                                        Partita_Request* request);
PARTITA_EXPORT int Partita_Pallreduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                           Partita_Request* request);
PARTITA_EXPORT int Partita_Preduce_scatter_init(const void* sendbuf, void* recvbuf, int partitions,
                                                const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
                                                MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Preduce_scatter_block_init(const void* sendbuf, void* recvbuf, int partitions,
                                                      MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                                      MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                      Partita_Request* request);
PARTITA_EXPORT int Partita_Pexscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                        Partita_Request* request);
PARTITA_EXPORT int Partita_Pneighbor_allgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                    MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                    MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                    Partita_Request* request);
PARTITA_EXPORT int Partita_Pneighbor_allgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                     MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                                     const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                                     MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Pneighbor_alltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                   MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                   Partita_Request* request);
PARTITA_EXPORT int Partita_Pneighbor_alltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                                    const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                                    const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                    MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                    Partita_Request* request);
PARTITA_EXPORT int Partita_Pneighbor_alltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                                    const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                                    void* recvbuf, const MPI_Count recvcounts[],
                                                    const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                                    MPI_Comm comm, MPI_Info info, Partita_Request* request);

/* ---- Persistent collectives (MPI-4, sections 6.13 and 8.8) -------------------------------------------------
 *
 * MPI-4's persistent collectives, which an MPI 3.1 has not: those above without partitions, and a barrier. Start hands
 * all of the data over, so nothing is marked; once the request is complete its result is there, and the barrier's tells
 * that all ranks have started. Arguments as MPI's, with MPI_Count and MPI_Aint for numbers. Collective over `comm`, an
 * intracommunicator: all ranks make their collectives, partitioned ones included, in the same order; one that meets
 * another call at the other rank fails on both. The init calls never block. Buffers of a rank lie in host memory or in
 * that of one GPU; there partita_driver tells who moves the data: host, the progress engine; device, kernels of the
 * library's, also in the stream of a queue and in graphs. Info keys: partita_link, partita_algorithm, partita_driver.
 * One page for all: docs/api/Partita_Collective_init.md. */

PARTITA_EXPORT int Partita_Bcast_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                                      MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Gather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                       MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                       MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Gatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                                        int root, MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Scatter_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                        MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                        MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Scatterv_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
                                         MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                         MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                                         Partita_Request* request);
PARTITA_EXPORT int Partita_Allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                          void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                          MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                           void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                           MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                           Partita_Request* request);
PARTITA_EXPORT int Partita_Alltoall_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                         MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                         Partita_Request* request);
PARTITA_EXPORT int Partita_Alltoallv_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                          MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                          const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                          Partita_Request* request);
PARTITA_EXPORT int Partita_Alltoallw_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                          const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                                          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                          MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                       MPI_Op op, int root, MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                          MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Reduce_scatter_init(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                               Partita_Request* request);
PARTITA_EXPORT int Partita_Reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                                     Partita_Request* request);
PARTITA_EXPORT int Partita_Scan_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                     MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Exscan_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                       MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Neighbor_allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                   void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                   MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Neighbor_allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                    void* recvbuf, const MPI_Count recvcounts[],
                                                    const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                                    MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Neighbor_alltoall_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                  void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                  MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Neighbor_alltoallv_init(const void* sendbuf, const MPI_Count sendcounts[],
                                                   const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                                   const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                                   Partita_Request* request);
PARTITA_EXPORT int Partita_Neighbor_alltoallw_init(const void* sendbuf, const MPI_Count sendcounts[],
                                                   const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                                   void* recvbuf, const MPI_Count recvcounts[],
                                                   const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                                   MPI_Comm comm, MPI_Info info, Partita_Request* request);
PARTITA_EXPORT int Partita_Barrier_init(MPI_Comm comm, MPI_Info info, Partita_Request* request);

/* ---- Nonblocking messages of the MPI's (MPI-4, sections 3.7.2 and 3.8.2) ----------------------------------
 *
 * MPI_Isend and its like, as the MPI of this process does them, matching and order included, with buffers in host or
 * GPU memory: the peer may use the MPI's own calls and need not know of Partita. A buffer in GPU memory travels through
 * host memory, in one message of the same signature; managed memory is the MPI's own affair. Its bytes must be there at
 * the call, unless the communicator names a stream behind which calls come (Partita_Comm_set_info): Partita
 * synchronises no device. They are taken at the call, which blocks until
 * then; what a receive brings is visible to the host, and to kernels that it launches, once the request is complete.
 * Wildcards, MPI_PROC_NULL and communicators that Partita does not know are allowed. The request is no persistent one:
 * the call that completes it sets it to PARTITA_REQUEST_NULL. It may be freed while it is active and completes by
 * itself then. Errors that the MPI finds come with its codes, and its error handler is called once.
 * One page for all: docs/api/Partita_Isend.md. */

PARTITA_EXPORT int Partita_Isend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                 MPI_Comm comm, Partita_Request* request);
/** Complete only once the receive has started, too. */
PARTITA_EXPORT int Partita_Issend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                  MPI_Comm comm, Partita_Request* request);
/** The receive has started already. */
PARTITA_EXPORT int Partita_Irsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                  MPI_Comm comm, Partita_Request* request);
/** Through the buffer that the program has attached to the MPI. */
PARTITA_EXPORT int Partita_Ibsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                  MPI_Comm comm, Partita_Request* request);
/** The message may be shorter than the buffer; the status says how long it is. */
PARTITA_EXPORT int Partita_Irecv(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                                 Partita_Request* request);
/** Receives `*message`, of MPI_Mprobe or MPI_Improbe, and sets it to MPI_MESSAGE_NULL. */
PARTITA_EXPORT int Partita_Imrecv(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
                                  Partita_Request* request);

/** Asks that `*request`, an active one of these, complete without moving anything: a receive for which no message has
 *  come. MPI_Test_cancelled on the status of its completion says whether it did. A send's may fail. Never blocks. */
PARTITA_EXPORT int Partita_Cancel(Partita_Request* request);

/* ---- Ordinary persistent requests, matched once (cpu-free-stream-triggered-mpi, section III-C) -------------
 *
 * MPI's persistent sends and receives of one message (MPI-4, section 3.9), which look for their peer when
 * Partita_Match or one of its like is called for them, and not before: a matched request meets the same request of the
 * peer in every epoch, until it is freed. Matched by (comm, rank, tag, order in which requests were given to these
 * calls); such requests never meet partitioned ones. No wildcards. Only matched requests start.
 * One page for all: docs/api/Partita_Match.md. */

/** Makes a persistent send. Local, never blocks. `dest` may be MPI_PROC_NULL. */
PARTITA_EXPORT int Partita_Send_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                     MPI_Comm comm, Partita_Request* request);
/** A send that the program starts only once the receive has started. */
PARTITA_EXPORT int Partita_Rsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                      MPI_Comm comm, Partita_Request* request);
/** A send that is complete only once the receive has started, too. */
PARTITA_EXPORT int Partita_Ssend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                      MPI_Comm comm, Partita_Request* request);
/** A send that is complete once it has started: the message is copied then, from host memory to memory of Partita's,
 *  and leaves from there, after MPI's own rules also behind a free of the request. */
PARTITA_EXPORT int Partita_Bsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                      MPI_Comm comm, Partita_Request* request);
/** Makes a persistent receive, of a message that may be shorter. */
PARTITA_EXPORT int Partita_Recv_init(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                     MPI_Comm comm, Partita_Request* request);

/** Blocks until `*request`, an inactive persistent request of any kind, is matched. A second call is a no-op. */
PARTITA_EXPORT int Partita_Match(Partita_Request* request);
/** The same for `count` requests together. Where one of them is refused, none begins to look for its peer. */
PARTITA_EXPORT int Partita_Matchall(int count, Partita_Request requests[]);
/** Partita_Match without blocking: `*matching` is complete once `*request` is matched. It cannot start again: the call
 *  that completes it frees it and sets it to PARTITA_REQUEST_NULL. */
PARTITA_EXPORT int Partita_Imatch(Partita_Request* request, Partita_Request* matching);
/** The same for `count` requests together, with one `*matching`. */
PARTITA_EXPORT int Partita_Imatchall(int count, Partita_Request requests[], Partita_Request* matching);
/** Sets `*flag` to 1 if `request`, a persistent one, is matched, else to 0. Never blocks; makes progress. A request of
 *  Partita_Imatch that waits for it is still to be completed. */
PARTITA_EXPORT int Partita_Is_matched(Partita_Request request, int* flag);

/* ---- Queues (cpu-free-stream-triggered-mpi, section III) ---------------------------------------------------
 *
 * Between the enqueued start of a request and the end of its enqueued wait the host neither starts nor completes nor
 * frees the request. What is wrong with the arguments comes out of the call, which enqueues nothing then; what goes
 * wrong as an operation runs comes out of Partita_Queue_wait. One thread at a time calls for a queue.
 * One page for all: docs/api/Partita_Queue_init.md. */

/** Makes a queue. PARTITA_QUEUE_HOST: `stream` is null; whatever is enqueued has run when the call returns.
 *  PARTITA_QUEUE_CUDA: `stream` is the address of a cudaStream_t, which outlives the queue; what is enqueued runs in
 * the stream's order, beside kernels. While the stream is being captured into a graph it takes only what it can run by
 * itself, each launch of the graph an epoch: ordinary messages between GPU memories, and collectives and partitioned
 * requests whose epochs kernels open (info key partita_driver). */
PARTITA_EXPORT int Partita_Queue_init(Partita_Queue* queue, Partita_Queue_type type, void* stream);
/** Partita_Queue_wait; then frees the queue and sets it to PARTITA_QUEUE_NULL. No start may be without its wait. */
PARTITA_EXPORT int Partita_Queue_free(Partita_Queue* queue);
/** Blocks until everything enqueued has run. Reports the first error of what has run since the last such call. */
PARTITA_EXPORT int Partita_Queue_wait(Partita_Queue queue);
/** Enqueues the start of a matched, inactive request, of which no start is enqueued without a wait. Waits for no
 *  peer. */
PARTITA_EXPORT int Partita_Enqueue_start(Partita_Queue queue, Partita_Request* request);
/** The same for `count` requests; where one is refused none is enqueued. */
PARTITA_EXPORT int Partita_Enqueue_startall(Partita_Queue queue, int count, Partita_Request requests[]);
/** Enqueues a wait for the start of `*request` that was enqueued in this queue: what comes behind it runs once the
 *  request is complete. */
PARTITA_EXPORT int Partita_Enqueue_wait(Partita_Queue queue, Partita_Request* request);
/** The same for `count` requests; where one is refused none is enqueued. */
PARTITA_EXPORT int Partita_Enqueue_waitall(Partita_Queue queue, int count, Partita_Request requests[]);

/** What the program's own kernels ask by whether the epoch of `request` that was started last is complete
 *  (cpu-free-stream-triggered-mpi, section V-A): a small struct with the addresses of two words in the memory of the
 *  request's GPU, passed to kernels by value, any number of times (MPIX_Completed in partita/device.cuh). `request` is
 *  a matched ordinary send or receive that streams move; it may be enqueued. Kernels ask behind starts in queues whose
 *  stream is of the request's GPU. Valid until the request is freed. Local.
 *  docs/api/Partita_Queue_completion.md. */
PARTITA_EXPORT int Partita_Queue_completion(Partita_Request request, Partita_Completion* completion);

/* ---- Completion (MPI-4, section 3.7): as the MPI calls of the same name. Completed requests become inactive
 *      and stay valid until Partita_Request_free; only that of a Partita_Imatch is freed and becomes null.
 *      PARTITA_REQUEST_NULL and inactive requests are allowed. ------------------------------------------- */

PARTITA_EXPORT int Partita_Wait(Partita_Request* request, MPI_Status* status);
PARTITA_EXPORT int Partita_Waitall(int count, Partita_Request requests[], MPI_Status statuses[]);
PARTITA_EXPORT int Partita_Waitany(int count, Partita_Request requests[], int* index, MPI_Status* status);
PARTITA_EXPORT int Partita_Waitsome(int incount, Partita_Request requests[], int* outcount, int indices[],
                                    MPI_Status statuses[]);
PARTITA_EXPORT int Partita_Test(Partita_Request* request, int* flag, MPI_Status* status);
PARTITA_EXPORT int Partita_Testall(int count, Partita_Request requests[], int* flag, MPI_Status statuses[]);
PARTITA_EXPORT int Partita_Testany(int count, Partita_Request requests[], int* index, int* flag, MPI_Status* status);
PARTITA_EXPORT int Partita_Testsome(int incount, Partita_Request requests[], int* outcount, int indices[],
                                    MPI_Status statuses[]);

/** For a layer that waits for requests together with something else: blocks until `done(context)`, which it calls again
 * and again, returns non-zero. Makes progress and is watched as Partita_Waitall on `requests` is; an error ends the
 * wait and makes the active ones of `requests` inactive. `done` may complete requests and must not throw. */
PARTITA_EXPORT int Partita_Wait_until(int count, Partita_Request requests[], int (*done)(void* context), void* context);

/* ---- Device requests (gpu-initiated-partitioned-mpi, section IV-A.3; docs/design/device.md) ----------------- */

/** Makes what kernels need to mark (send) or await (receive) the partitions of `request`, or both (collective, as far
 * as this rank has data to send and data arrive), whose buffers lie in the memory of one GPU: a small struct that the
 * program passes to its kernels by value, any number of times (partita/device.cuh). Blocks until the request is
 * matched; one device request at a time. The request may be active, if the host has marked nothing in this epoch. While
 * a send or a collective has a device request, kernels mark all of its partitions. A receive's is for Parrived in
 * kernels, and may be had beside the host's Parrived; so may a collective's. */
PARTITA_EXPORT int Partita_Prequest_create(Partita_Prequest* prequest, Partita_Request request);

/** Releases what Partita_Prequest_create made, before its request is freed, while no kernel uses it and the request is
 * inactive. A kernel that uses it later gets an error. */
PARTITA_EXPORT int Partita_Prequest_free(Partita_Prequest* prequest);

/** Partita_Test without making the request inactive. */
PARTITA_EXPORT int Partita_Request_get_status(Partita_Request request, int* flag, MPI_Status* status);

/** Frees an inactive request and sets it to PARTITA_REQUEST_NULL. Local. An active one is an error
 *  (MPI_ERR_REQUEST) and stays. */
PARTITA_EXPORT int Partita_Request_free(Partita_Request* request);

/** What became of a request, as an info object that the caller frees: partita_kind (send, recv),
 *  partita_active (true, false), partita_matched (true, false), of a message partita_memory (host, device, managed)
 * and, once matched, partita_link, partita_reason (why this link), partita_transport_partitions; of an ordinary message
 * that streams move, partita_moved_by (stream); with a device request, partita_gpu_copy (kernel, engine) and
 * partita_packets (true, false). Local. */
PARTITA_EXPORT int Partita_Request_get_info(Partita_Request request, MPI_Info* info);

#ifdef __cplusplus
}
#endif
#endif
