/* Ends with a partitioned request alive. Inactive or complete ones are no error; one that is not complete is.
     dropin_live_at_finalize idle | complete | incomplete
   All ranks send to the next and receive from the one before. With "idle" rank 0 has a send that is not started; with
   "complete" all arrives, and nobody waits; with "incomplete" rank 0's last partition is never marked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* what = argc > 1 ? argv[1] : "idle";
  const int incomplete = strcmp(what, "incomplete") == 0;
  if (incomplete) { /* else errors end the job, as they would end a program's */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static int data[4];
  static int in[4];
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request receive = MPI_REQUEST_NULL;
  if (strcmp(what, "complete") == 0) {
    MPI_Psend_init(data, 2, 2, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, 2, 2, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    MPI_Start(&receive);
    MPI_Start(&send);
    MPI_Pready_range(0, 1, send);
    for (int partition = 0; partition < 2;) {
      int arrived = 0;
      MPI_Parrived(receive, partition, &arrived);
      partition += arrived;
    }
  } else if (rank == 0) {
    MPI_Psend_init(data, 2, 2, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    if (incomplete) {
      MPI_Start(&send);
      MPI_Pready(0, send);
    }
  }
  MPI_Datatype pair = MPI_DATATYPE_NULL; /* beside it a persistent request that nobody has matched */
  MPI_Request unmatched = MPI_REQUEST_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Recv_init(in, 2, pair, rank, 1, MPI_COMM_WORLD, &unmatched);
  MPI_Type_free(&pair);
  const int code = MPI_Finalize();
  printf("rank %d: MPI_Finalize returned %s\n", rank, code == MPI_SUCCESS ? "success" : "an error");
  return (code != MPI_SUCCESS) == (incomplete && rank == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
