/* Every way to complete a receive while its sender takes its time: no call may say that the receive is complete before
 * all bytes are there, whatever library stands in front of the drop-in or behind it. Partitioned receives, and those of
 * ordinary persistent messages, of the MPI's own and matched. Two ranks or more; rank 0 sends to all others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { partitions = 4, size_bytes = 40000, ways = 8 };
enum { partitioned, message, matched_message, kinds };

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

static void complete(int way, int kind, MPI_Request* request) {
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
      if (kind != message) look_past_the_mpi(*request); /* which makes no progress of the MPI's own */
      MPI_Wait(request, MPI_STATUS_IGNORE);
      break;
  }
}

typedef int (*Matchall)(int count, MPI_Request requests[]);

/* Rank 0 sends to all others. The drop-in moves the bytes of messages that are matched. */
static int make(int kind, int rank, int size, char* data, MPI_Request* requests) {
  const int count = rank == 0 ? size - 1 : 1;
  for (int i = 0; i < count; ++i) {
    if (kind == partitioned && rank == 0) {
      MPI_Psend_init(data, partitions, size_bytes / partitions, MPI_CHAR, i + 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    } else if (kind == partitioned) {
      MPI_Precv_init(data, partitions, size_bytes / partitions, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[i]);
    } else if (rank == 0) {
      MPI_Send_init(data, size_bytes, MPI_CHAR, i + 1, 6, MPI_COMM_WORLD, &requests[i]);
    } else {
      MPI_Recv_init(data, size_bytes, MPI_CHAR, 0, 6, MPI_COMM_WORLD, &requests[i]);
    }
  }
  if (kind == matched_message) {
    Matchall matchall = NULL; /* MPIX_Matchall, which the drop-in alone has */
    *(void**)&matchall = dlsym(RTLD_DEFAULT, "Partita_mpi_Matchall");
    if (matchall == NULL || matchall(count, requests) != MPI_SUCCESS) {
      printf("rank %d: its messages were not matched\n", rank);
      MPI_Abort(MPI_COMM_WORLD, 4);
    }
  }
  return count;
}

/* How many bytes were not there when a call said that they are. */
static int run(int kind, int rank, int size) {
  static char data[size_bytes];
  MPI_Request requests[64];
  const int count = make(kind, rank, size, data, requests);
  int wrong = 0;
  for (int epoch = 0; epoch < 2 * ways; ++epoch) {
    for (int i = 0; i < size_bytes; ++i) data[i] = rank == 0 ? (char)expected(epoch, i) : -1;
    if (rank == 0 && kind != partitioned) pause_ms(10);
    if (epoch % 2 == 0) {
      MPI_Startall(count, requests);
    } else {
      for (int i = 0; i < count; ++i) MPI_Start(&requests[i]);
    }
    if (rank == 0 && kind == partitioned) {
      pause_ms(10);
      for (int i = 0; i < count; ++i) MPI_Pready_range(0, partitions - 1, requests[i]);
    }
    for (int i = 0; i < count; ++i) complete(epoch / 2, kind, &requests[i]);
    for (int i = 0; i < size_bytes; ++i) wrong += data[i] != expected(epoch, i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < count; ++i) MPI_Request_free(&requests[i]);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = 0;
  for (int kind = 0; kind < kinds; ++kind) wrong += run(kind, rank, size);
  int wrong_in_all = 0;
  MPI_Allreduce(&wrong, &wrong_in_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d wrong bytes\n", wrong_in_all);
  MPI_Finalize();
  return wrong_in_all == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
