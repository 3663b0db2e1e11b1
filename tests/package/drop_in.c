/* A plain MPI-4 program that knows nothing of Partita: rank 0 sends four partitions to rank 1. Ends with 0 if they
 * arrived. */
#include <mpi.h>
#include <stdio.h>

enum { partitions = 4, count = 3, size = partitions * count };

static int send_partitions(void) {
  double values[size] = {0};
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Psend_init(values, partitions, count, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) return 1;
  if (MPI_Start(&request)) return 2;
  for (int p = partitions - 1; p >= 0; --p) {
    for (int i = p * count; i < (p + 1) * count; ++i) values[i] = 100.0 + i;
    if (MPI_Pready(p, request)) return 3;
  }
  if (MPI_Wait(&request, MPI_STATUS_IGNORE)) return 4;
  return MPI_Request_free(&request) ? 5 : 0;
}

static int receive_partitions(void) {
  double values[size] = {0};
  int arrived = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Precv_init(values, 2, size / 2, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) return 1;
  if (MPI_Start(&request)) return 2;
  while (!arrived) {
    if (MPI_Parrived(request, 1, &arrived)) return 3;
  }
  if (MPI_Wait(&request, MPI_STATUS_IGNORE)) return 4;
  for (int i = 0; i < size; ++i) {
    if (values[i] != 100.0 + i) {
      fprintf(stderr, "element %d is %g, expected %g\n", i, values[i], 100.0 + i);
      return 6;
    }
  }
  return MPI_Request_free(&request) ? 5 : 0;
}

int main(int argc, char** argv) {
  int rank = 0;
  int code = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  code = rank == 0 ? send_partitions() : rank == 1 ? receive_partitions() : 0;
  MPI_Finalize();
  return code;
}
