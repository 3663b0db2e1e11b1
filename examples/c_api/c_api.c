#include <partita/partita.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int level, rank, wrong = 0;
  double* values;
  Partita_Request request;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level); /* ask for it yourself */
  Partita_Init(MPI_COMM_WORLD);                               /* collective */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Partita_Alloc(8000 * sizeof(double), MPI_INFO_NULL, &values); /* memory into which others of the node write */

  if (rank == 0) {
    for (int i = 0; i < 8000; ++i) values[i] = i;
    Partita_Psend_init(values, 8, 1000, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  if (rank == 1) Partita_Precv_init(values, 4, 2000, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  if (rank < 2) {
    Partita_Start(&request);
    if (rank == 0) Partita_Pready_range(0, 7, request);
    Partita_Wait(&request, MPI_STATUS_IGNORE);
    Partita_Request_free(&request); /* before its buffer */
    if (rank == 1) {
      wrong = values[7999] != 7999;
      printf("%.0f, which is %s\n", values[7999], wrong ? "wrong" : "right");
    }
  }
  Partita_Free(values);
  Partita_Finalize(); /* before MPI_Finalize */
  MPI_Finalize();
  return wrong;
}
