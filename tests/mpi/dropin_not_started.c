/* The MPI is started past the drop-in, as by sessions: the drop-in's calls are the MPI's own then, and only partitioned
 * requests are refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int failures = 0;

static void expect(int held, const char* what) {
  if (held) return;
  ++failures;
  printf("not so: %s\n", what);
}
static void succeeds(int code, const char* call) {
  char sentence[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, sentence, &length);
  ++failures;
  printf("%s: %s\n", call, sentence);
}
#define SUCCEEDS(call) succeeds(call, #call)

/* A constructor that gave `comm` made a communicator that works. */
static void use(MPI_Comm comm) {
  int one = 1, sum = 0, size = 0;
  SUCCEEDS(MPI_Comm_size(comm, &size));
  SUCCEEDS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  expect(sum == size, "an allreduce over the new communicator adds up");
  SUCCEEDS(MPI_Comm_free(&comm));
}

static void construct(int size) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  const int periodic = 0;
  SUCCEEDS(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  use(comm);
  SUCCEEDS(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &comm));
  use(comm);
  SUCCEEDS(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm));
  use(comm);
  SUCCEEDS(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
  SUCCEEDS(MPI_Wait(&request, MPI_STATUS_IGNORE));
  use(comm);
  SUCCEEDS(MPI_Comm_group(MPI_COMM_WORLD, &group));
  SUCCEEDS(MPI_Comm_create_group(MPI_COMM_WORLD, group, 1, &comm));
  use(comm);
  SUCCEEDS(MPI_Group_free(&group));
}

static void exchange(int rank, int size) {
  int out = rank, in = -1, again = -1;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request requests[2], persistent[2];
  SUCCEEDS(MPI_Irecv(&in, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]));
  SUCCEEDS(MPI_Isend(&out, 1, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]));
  SUCCEEDS(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  expect(in == left, "what was sent has arrived");
  SUCCEEDS(MPI_Recv_init(&again, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &persistent[0]));
  SUCCEEDS(MPI_Send_init(&out, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &persistent[1]));
  SUCCEEDS(MPI_Startall(2, persistent));
  for (int all = 0; all == 0;) SUCCEEDS(MPI_Testall(2, persistent, &all, MPI_STATUSES_IGNORE));
  expect(again == left, "what a persistent request sent has arrived");
  SUCCEEDS(MPI_Request_free(&persistent[0]));
  SUCCEEDS(MPI_Request_free(&persistent[1]));
}

/* PMPI_Init is the drop-in's, too: taken from the library that has a function which the drop-in leaves alone. */
static void init_past_the_drop_in(int* argc, char*** argv) {
  Dl_info mpi;
  if (dladdr(dlsym(RTLD_DEFAULT, "PMPI_Get_version"), &mpi) == 0) exit(EXIT_FAILURE);
  int (*init)(int*, char***) = NULL;
  *(void**)&init = dlsym(dlopen(mpi.dli_fname, RTLD_NOW | RTLD_NOLOAD), "PMPI_Init");
  if (init == NULL) exit(EXIT_FAILURE);
  SUCCEEDS(init(argc, argv));
}

int main(int argc, char** argv) {
  int rank = 0, size = 1;
  void* memory = NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  init_past_the_drop_in(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  construct(size);
  exchange(rank, size);
  SUCCEEDS(MPI_Alloc_mem(4096, MPI_INFO_NULL, &memory));
  SUCCEEDS(MPI_Free_mem(memory));
  SUCCEEDS(MPI_Barrier(MPI_COMM_WORLD));
  expect(MPI_Psend_init(&rank, 1, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &request) != MPI_SUCCESS,
         "MPI_Psend_init is refused");
  SUCCEEDS(MPI_Finalize());
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
