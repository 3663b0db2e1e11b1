/* A program that knows nothing of Partita: messages back and forth with MPI_Isend, MPI_Irecv and MPI_Waitall by one
   thread, after a plain MPI_Init, or after an MPI_Init_thread that asks for LEVEL. bench/measure.py runs it with the
   drop-in preloaded and without, and at the lowest and the highest level, whose difference is what an MPI takes for
   being ready for calls from several threads.

     mpirun -n 2 partita_plain_ping_pong [--thread-level single|funneled|serialized|multiple] SIZE...

   Prints, for each size in bytes, the median over batches of the one-way time in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const struct {
  const char* name;
  int level;
} thread_levels[] = {{"single", MPI_THREAD_SINGLE},
                     {"funneled", MPI_THREAD_FUNNELED},
                     {"serialized", MPI_THREAD_SERIALIZED},
                     {"multiple", MPI_THREAD_MULTIPLE}};

/* Ends the job unless the MPI gives just the level called `name`: with another one the times would be of that. */
static void init_at_level(int* argc, char*** argv, const char* name) {
  int wanted = -1, given = -1;
  for (size_t i = 0; i < sizeof thread_levels / sizeof *thread_levels; ++i) {
    if (strcmp(name, thread_levels[i].name) == 0) wanted = thread_levels[i].level;
  }
  MPI_Init_thread(argc, argv, wanted < 0 ? MPI_THREAD_SINGLE : wanted, &given);
  if (wanted < 0) {
    fprintf(stderr,
            "partita_plain_ping_pong: there is no thread level '%s'; expected is single, funneled, serialized or "
            "multiple\n",
            name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (given != wanted) {
    fprintf(stderr, "partita_plain_ping_pong: --thread-level %s: this MPI gives another one (%d, not %d)\n", name,
            given, wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char** argv) {
  int rank, ranks, first_size = 1;
  if (argc > 2 && strcmp(argv[1], "--thread-level") == 0) {
    init_at_level(&argc, &argv, argv[2]);
    first_size = 3;
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || argc <= first_size) {
    fprintf(stderr, "partita_plain_ping_pong: %d ranks, %d sizes; expected are 2 ranks and one size in bytes or more\n",
            ranks, argc - first_size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = first_size; i < argc; ++i) {
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
