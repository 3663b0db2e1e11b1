/* A plain MPI-4 program in C that knows nothing of Partita: a ring of partitioned messages beside ordinary ones,
 * completed together. It must compile against an MPI-3.1 with the flags of partita::mpi, and run unchanged, linked or
 * preloaded. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { partitions = 8, count = 1000, epochs = 20 };

static int expected(int rank, int epoch, int i) {
  return rank * 1000003 + epoch * 10007 + i;
}

static int wrong_elements(const int* data, int rank, int epoch) {
  int wrong = 0;
  for (int i = 0; i < partitions * count; ++i) wrong += data[i] != expected(rank, epoch, i);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int level = -1;
  MPI_Query_thread(&level); /* MPI_Init asks for MPI_THREAD_SINGLE */
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;

  static int out[partitions * count];
  static int in[partitions * count];
  MPI_Request requests[4];
  MPI_Psend_init(out, partitions, count, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(in, partitions / 2, 2 * count, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);

  int wrong = level != MPI_THREAD_SINGLE;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    int token = -1;
    const int own = rank + epoch;
    MPI_Startall(2, requests);
    MPI_Irecv(&token, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&own, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[3]);
    for (int partition = 0; partition < partitions; ++partition) {
      for (int i = partition * count; i < (partition + 1) * count; ++i) out[i] = expected(rank, epoch, i);
      MPI_Pready(partition, requests[0]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    wrong += wrong_elements(in, previous, epoch) + (token != previous + epoch);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);

  int wrong_in_all = 0;
  MPI_Allreduce(&wrong, &wrong_in_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d epochs: %d wrong elements\n", size, (int)epochs, wrong_in_all);
  MPI_Finalize();
  return wrong_in_all == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
