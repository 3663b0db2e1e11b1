/* A program that knows nothing of Partita, in one job with one that does: whatever it exchanges on MPI_COMM_WORLD must
 * be its own. It takes what the other program does not send, so it ends only when the other does. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int in_collective(void) {
  const int mine = 1000;
  int sum = -1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

static int in_message(void) {
  int value = -1;
  MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return value;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int got = argc > 1 && strcmp(argv[1], "message") == 0 ? in_message() : in_collective();
  /* Nothing of the other program's can be here: it is still in MPI_Init. */
  printf("not so: nobody takes part in the exchange; got %d\n", got);
  fflush(stdout);
  MPI_Finalize();
  return 1;
}
