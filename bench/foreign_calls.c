/* MPI_Test and MPI_Wait on a request of the MPI's own, complete already, through the drop-in. bench/measure.py counts
   the instructions within counted_test and counted_wait.

     partita_foreign_calls [alive]

   alive: requests of Partita exist meanwhile. */
#include <mpi.h>
#include <string.h>

enum { calls = 100 };

__attribute__((noinline)) static int counted_test(MPI_Request* request) {
  int flag = 0;
  return MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag;
}

__attribute__((noinline)) static int counted_wait(MPI_Request* request) {
  const int code = MPI_Wait(request, MPI_STATUS_IGNORE);
  return code == MPI_SUCCESS;
}

int main(int argc, char** argv) {
  char out = 1, in = 0;
  int good = 1;
  MPI_Init(&argc, &argv);
  const int alive = argc > 1 && strcmp(argv[1], "alive") == 0;
  MPI_Request foreign, ours[2];
  if (alive) {
    MPI_Psend_init(&out, 1, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &ours[0]);
    MPI_Precv_init(&in, 1, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &ours[1]);
  }
  MPI_Recv_init(&in, 1, MPI_CHAR, MPI_PROC_NULL, 1, MPI_COMM_SELF, &foreign);
  for (int call = 0; call < calls; ++call) {
    MPI_Start(&foreign);
    good &= counted_test(&foreign);
    MPI_Start(&foreign);
    good &= counted_wait(&foreign);
  }
  MPI_Request_free(&foreign);
  for (int i = 0; alive && i < 2; ++i) MPI_Request_free(&ours[i]);
  MPI_Finalize();
  return good ? 0 : 1;
}
