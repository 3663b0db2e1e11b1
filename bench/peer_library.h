/* What a shared library must export to be measured with `--peer library:PATH`: seven calls with the meaning of the
 * MPI call of the same name on a request of the library's own. All return MPI_SUCCESS or an error code.
 * docs/guide/benchmarks.md tells how to wrap a library that has other names. */
#ifndef PARTITA_BENCH_PEER_LIBRARY_H
#define PARTITA_BENCH_PEER_LIBRARY_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a persistent partitioned send of `partitions` x `count` elements and sets `*request` to what the other calls
 *  take. `comm` is a communicator of the benchmark's that carries nothing else. */
int partita_peer_psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                            MPI_Comm comm, MPI_Info info, void** request);
int partita_peer_precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                            MPI_Comm comm, MPI_Info info, void** request);
int partita_peer_start(void** request);
/** May be called by several threads at once. */
int partita_peer_pready(int partition, void* request);
int partita_peer_parrived(void* request, int partition, int* flag);
int partita_peer_wait(void** request, MPI_Status* status);
int partita_peer_request_free(void** request);

#ifdef __cplusplus
}
#endif
#endif
