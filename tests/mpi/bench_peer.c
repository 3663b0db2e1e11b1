/* A peer for the benchmarks that sends whole messages by persistent requests, if the info of its requests says
   greeting=hello. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peer_library.h"

typedef struct {
  MPI_Request request;
  int partitions, marked, sends;
} Request;

static int greeted(MPI_Info info) {
  char value[16] = "";
  int found = 0;
  if (info != MPI_INFO_NULL) PMPI_Info_get(info, "greeting", sizeof value - 1, value, &found);
  return found && strcmp(value, "hello") == 0;
}

static Request* made(int partitions, int sends, void** request) {
  Request* own = malloc(sizeof *own);
  own->partitions = partitions;
  own->sends = sends;
  *request = own;
  return own;
}

int partita_peer_psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                            MPI_Comm comm, MPI_Info info, void** request) {
  if (!greeted(info)) return MPI_ERR_INFO;
  return PMPI_Send_init(buf, (int)count * partitions, datatype, dest, tag, comm,
                        &made(partitions, 1, request)->request);
}

int partita_peer_precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                            MPI_Comm comm, MPI_Info info, void** request) {
  if (!greeted(info)) return MPI_ERR_INFO;
  return PMPI_Recv_init(buf, (int)count * partitions, datatype, source, tag, comm,
                        &made(partitions, 0, request)->request);
}

int partita_peer_start(void** request) {
  Request* own = *request;
  own->marked = 0;
  return own->sends ? MPI_SUCCESS : PMPI_Start(&own->request);
}

int partita_peer_pready(int partition, void* request) {
  Request* own = request;
  (void)partition;
  return ++own->marked == own->partitions ? PMPI_Start(&own->request) : MPI_SUCCESS;
}

int partita_peer_parrived(void* request, int partition, int* flag) {
  Request* own = request;
  (void)partition;
  return PMPI_Request_get_status(own->request, flag, MPI_STATUS_IGNORE);
}

int partita_peer_wait(void** request, MPI_Status* status) {
  return PMPI_Wait(&((Request*)*request)->request, status);
}

int partita_peer_request_free(void** request) {
  const int code = PMPI_Request_free(&((Request*)*request)->request);
  free(*request);
  *request = NULL;
  return code;
}
