/* A ring of cells, divided among the ranks: in each step a cell becomes the exclusive or of its two neighbours. The
 * cells at the ends are exchanged by ordinary persistent requests, which are matched once and then started and awaited
 * in a queue. This one is the host's: the thread that calls is its stream. */
#include <mpi.h>
#include <partita/mpix.h>
#include <stdio.h>
#include <string.h>

enum { most_ranks = 64, cells_per_rank = 100, steps = 1000 };

static void step(int* cells, int count) { /* cells[0] and cells[count + 1] are the neighbours' */
  int before = cells[0];
  for (int i = 1; i <= count; ++i) {
    const int now = cells[i];
    cells[i] = before ^ cells[i + 1];
    before = now;
  }
}

int main(int argc, char** argv) {
  int rank, ranks, cells[cells_per_rank + 2] = {0}, all[most_ranks * cells_per_rank],
                                          alone[most_ranks * cells_per_rank + 2] = {0};
  MPI_Request requests[4];
  MPIX_Queue queue;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  int* const first = &cells[1];
  int* const last = &cells[cells_per_rank];

  MPI_Recv_init(first - 1, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(last + 1, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init(last, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Send_init(first, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[3]);
  MPIX_Matchall(4, requests);
  MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, NULL);

  if (rank == 0) *first = 1;
  for (int i = 0; i < steps; ++i) {
    MPIX_Enqueue_startall(queue, 4, requests);
    MPIX_Enqueue_waitall(queue, 4, requests);
    step(cells, cells_per_rank);
  }
  MPIX_Queue_free(&queue); /* tells what has failed on the way */
  for (int i = 0; i < 4; ++i) MPI_Request_free(&requests[i]);

  /* Rank 0 does it all alone, too. */
  const int count = ranks * cells_per_rank;
  MPI_Gather(first, cells_per_rank, MPI_INT, all, cells_per_rank, MPI_INT, 0, MPI_COMM_WORLD);
  int wrong = 0, living = 0;
  if (rank == 0) {
    alone[1] = 1;
    for (int i = 0; i < steps; ++i) {
      alone[0] = alone[count];
      alone[count + 1] = alone[1];
      step(alone, count);
    }
    wrong = memcmp(all, alone + 1, sizeof(int) * count) != 0;
    for (int i = 0; i < count; ++i) living += all[i];
    printf("%d cells live, which is %s\n", living, wrong ? "wrong" : "right");
  }
  MPI_Finalize();
  return wrong;
}
