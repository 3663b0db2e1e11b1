/* Every way to complete a partitioned receive while its sender takes its time: no call may say that the receive is
 * complete before all bytes are there, whatever library stands in front of the drop-in or behind it. Two ranks or more;
 * rank 0 sends to all others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { partitions = 4, size_bytes = 40000, ways = 8 };

static int expected(int epoch, int i) {
  return (epoch * 31 + i * 7 + 1) & 0x7f;
}

static void pause_ms(long ms) {
  const struct timespec time = {0, ms * 1000000};
  nanosleep(&time, NULL);
}

/* MPICH's look at a request without completing it. */
static void look_past_the_mpi(MPI_Request request) {
#ifdef PARTITEST_REQUEST_IS_COMPLETE
  while (!MPIX_Request_is_complete(request)) {
  }
#else
  (void)request;
#endif
}

static void complete(int way, MPI_Request* request) {
  MPI_Request pair[2] = {MPI_REQUEST_NULL, *request};
  int flag = 0;
  int index = MPI_UNDEFINED;
  int indices[2];
  MPI_Status statuses[2];
  switch (way) {
    case 0:
      MPI_Wait(request, MPI_STATUS_IGNORE);
      break;
    case 1:
      MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
      break;
    case 2:
      MPI_Waitany(2, pair, &index, MPI_STATUS_IGNORE);
      break;
    case 3:
      while (!flag) MPI_Test(request, &flag, &statuses[0]);
      break;
    case 4:
      while (!flag) MPI_Testall(2, pair, &flag, statuses);
      break;
    case 5:
      MPI_Waitsome(2, pair, &index, indices, statuses);
      break;
    case 6:
      while (!flag) MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE);
      MPI_Wait(request, MPI_STATUS_IGNORE);
      break;
    case 7:
      look_past_the_mpi(*request);
      MPI_Wait(request, MPI_STATUS_IGNORE);
      break;
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static char data[size_bytes];
  MPI_Request requests[64];
  const int count = rank == 0 ? size - 1 : 1;
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      MPI_Psend_init(data, partitions, size_bytes / partitions, MPI_CHAR, i + 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    } else {
      MPI_Precv_init(data, partitions, size_bytes / partitions, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    }
  }
  int wrong = 0;
  for (int epoch = 0; epoch < 2 * ways; ++epoch) {
    for (int i = 0; i < size_bytes; ++i) data[i] = rank == 0 ? (char)expected(epoch, i) : -1;
    if (epoch % 2 == 0) {
      MPI_Startall(count, requests);
    } else {
      for (int i = 0; i < count; ++i) MPI_Start(&requests[i]);
    }
    if (rank == 0) pause_ms(10);
    for (int i = 0; rank == 0 && i < count; ++i) MPI_Pready_range(0, partitions - 1, requests[i]);
    for (int i = 0; i < count; ++i) complete(epoch / 2, &requests[i]);
    for (int i = 0; i < size_bytes; ++i) wrong += data[i] != expected(epoch, i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < count; ++i) MPI_Request_free(&requests[i]);
  int wrong_in_all = 0;
  MPI_Allreduce(&wrong, &wrong_in_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d wrong bytes\n", wrong_in_all);
  MPI_Finalize();
  return wrong_in_all == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
