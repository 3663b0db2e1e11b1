/* A profiling library as MPI's profiling interface means it: wraps calls, counts them and makes them by their shifted
 * names. Where PARTITEST_TOOL_IN_FRONT holds its name, MPI_Finalize fails unless it has seen each call. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { init, start, startall, wait_one, wait_all, wait_any, test_one, test_all, calls };
static const char* const names[calls] = {"MPI_Send_init or MPI_Recv_init",
                                         "MPI_Start",
                                         "MPI_Startall",
                                         "MPI_Wait",
                                         "MPI_Waitall",
                                         "MPI_Waitany",
                                         "MPI_Test",
                                         "MPI_Testall"};
static int seen[calls];

int MPI_Init(int* argc, char*** argv) {
  return PMPI_Init(argc, argv);
}

int MPI_Send_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  ++seen[init];
  return PMPI_Send_init(buf, count, datatype, dest, tag, comm, request);
}

int MPI_Recv_init(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  ++seen[init];
  return PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
}

int MPI_Start(MPI_Request* request) {
  ++seen[start];
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  ++seen[startall];
  return PMPI_Startall(count, requests);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++seen[wait_one];
  return PMPI_Wait(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  ++seen[wait_all];
  return PMPI_Waitall(count, requests, statuses);
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  ++seen[wait_any];
  return PMPI_Waitany(count, requests, index, status);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++seen[test_one];
  return PMPI_Test(request, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  ++seen[test_all];
  return PMPI_Testall(count, requests, flag, statuses);
}

int MPI_Finalize(void) {
  const char* in_front = getenv("PARTITEST_TOOL_IN_FRONT");
  int missed = 0;
  for (int call = 0; in_front != NULL && strstr(in_front, TOOL_NAME) != NULL && call < calls; ++call) {
    if (seen[call] > 0) continue;
    printf("tool %s has not seen %s\n", TOOL_NAME, names[call]);
    ++missed;
  }
  const int code = PMPI_Finalize();
  if (missed > 0) _Exit(3);
  return code;
}
