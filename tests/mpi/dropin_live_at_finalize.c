/* Ends with a partitioned request alive: MPI_Finalize must say so and end all the same. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static int data[4];
  MPI_Request request;
  if (rank == 0) MPI_Psend_init(data, 1, 4, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  if (argc > 1 && rank == 0) {
    MPI_Start(&request);
    MPI_Pready(0, request);
  }
  const int code = MPI_Finalize();
  printf("rank %d: MPI_Finalize returned %s\n", rank, code == MPI_SUCCESS ? "success" : "an error");
  return (code != MPI_SUCCESS) == (rank == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
