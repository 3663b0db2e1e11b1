/* What dropin_processes_test spawns: tells its parent whether partitioned requests towards it are refused. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc > 1) setenv("PARTITA_PROGRESS", argv[1], 1);
  MPI_Init(&argc, &argv);
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 2);

  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  char data[8] = "";
  MPI_Request request = MPI_REQUEST_NULL;
  int error_class = MPI_SUCCESS;
  int code = MPI_Psend_init(data, 2, 4, MPI_BYTE, 0, 3, parent, MPI_INFO_NULL, &request);
  MPI_Error_class(code, &error_class);
  int refused = error_class == MPI_ERR_COMM;

  int mine = 42, theirs = -1;
  MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
  /* With another decision about progress than the parent's: both must come to the MPI's own call. */
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, parent);
  MPI_Send(&refused, 1, MPI_INT, 0, 2, parent);
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Intercomm_merge(parent, 1, &merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return 0;
}
