/* A program that knows nothing of Partita: messages back and forth with MPI_Isend, MPI_Irecv and MPI_Waitall, after a
   plain MPI_Init. bench/measure.py runs it with the drop-in preloaded and without.

     mpirun -n 2 partita_plain_ping_pong SIZE...

   Prints, for each size in bytes, the median over batches of the one-way time in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { batches = 101, round_trips = 200 };

static int by_value(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static void one_way(int sends, char* data, int size, int peer) {
  MPI_Request request;
  if (sends) {
    MPI_Isend(data, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
  } else {
    MPI_Irecv(data, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request);
  }
  MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || argc < 2) {
    fprintf(stderr, "partita_plain_ping_pong: %d ranks, %d sizes; expected are 2 ranks and one size in bytes or more\n",
            ranks, argc - 1);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 1; i < argc; ++i) {
    const int size = atoi(argv[i]);
    char* data = calloc((size_t)size + 1, 1);
    double times[batches];
    for (int batch = -10; batch < batches; ++batch) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int n = 0; n < round_trips; ++n) {
        one_way(rank == 0, data, size, 1 - rank);
        one_way(rank == 1, data, size, 1 - rank);
      }
      if (batch >= 0) times[batch] = (MPI_Wtime() - start) / (2 * round_trips) * 1e6;
    }
    qsort(times, batches, sizeof times[0], by_value);
    if (rank == 0) printf("%d %.4f\n", size, times[batches / 2]);
    free(data);
  }
  return MPI_Finalize();
}
