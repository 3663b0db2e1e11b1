/* The same small program in C and C++: rank 0 sends four partitions to rank 1 through the C API. Ends with 0 if they
 * arrived. */
#include <partita/partita.h>
#include <stdio.h>

enum { partitions = 4, count = 3, size = partitions * count };

static int send_partitions(void) {
  double values[size] = {0};
  Partita_Request request = PARTITA_REQUEST_NULL;
  if (Partita_Psend_init(values, partitions, count, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request))
    return 1;
  if (Partita_Start(&request)) return 2;
  for (int p = partitions - 1; p >= 0; --p) {
    for (int i = p * count; i < (p + 1) * count; ++i) values[i] = 100.0 + i;
    if (Partita_Pready(p, request)) return 3;
  }
  if (Partita_Wait(&request, MPI_STATUS_IGNORE)) return 4;
  return Partita_Request_free(&request) ? 5 : 0;
}

static int receive_partitions(void) {
  double values[size] = {0};
  Partita_Request request = PARTITA_REQUEST_NULL;
  if (Partita_Precv_init(values, 1, size, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) return 1;
  if (Partita_Start(&request)) return 2;
  if (Partita_Wait(&request, MPI_STATUS_IGNORE)) return 4;
  for (int i = 0; i < size; ++i) {
    if (values[i] != 100.0 + i) {
      fprintf(stderr, "element %d is %g, expected %g\n", i, values[i], 100.0 + i);
      return 6;
    }
  }
  return Partita_Request_free(&request) ? 5 : 0;
}

int main(int argc, char** argv) {
  int rank = 0;
  int code = 0;
  MPI_Init(&argc, &argv);
  if (Partita_Init(MPI_COMM_WORLD)) return 10;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  code = rank == 0 ? send_partitions() : rank == 1 ? receive_partitions() : 0;
  if (Partita_Finalize()) return 11;
  MPI_Finalize();
  return code;
}
