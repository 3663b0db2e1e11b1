#include <mpi.h>
#include <stdio.h>

enum { partitions = 8, count = 100000 };
static double values[partitions * count];

int main(int argc, char** argv) {
  int level, rank, wrong = 0;
  MPI_Request request;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  if (rank == 0) {
    MPI_Psend_init(values, partitions, count, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
#pragma omp parallel for
    for (int p = 0; p < partitions; ++p) {
      for (int i = 0; i < count; ++i) values[p * count + i] = p + i;
      MPI_Pready(p, request); /* this part may leave; the others are still computed */
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* inactive now; MPI_Start opens the next round */
    MPI_Request_free(&request);
  } else if (rank == 1) {
    double sum = 0;
    MPI_Precv_init(values, partitions, count, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    for (int p = 0; p < partitions; ++p) {
      int arrived = 0;
      while (!arrived) MPI_Parrived(request, p, &arrived);
      for (int i = 0; i < count; ++i) sum += values[p * count + i];
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    wrong = sum != 40002400000.0;
    printf("%.0f, which is %s\n", sum, wrong ? "wrong" : "right");
  }
  MPI_Finalize();
  return wrong;
}
