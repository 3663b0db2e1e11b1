/* Steps of a data-parallel program: threads compute a gradient layer by layer, and each layer is summed over all ranks
 * while the next ones are still computed. The weights of a layer are updated as soon as its sum is there. */
#include <mpi.h>
#include <partita/mpix.h>
#include <stdio.h>

enum { layers = 8, weights_per_layer = 1000, steps = 10 };
static double gradient[layers * weights_per_layer];
static double sum[layers * weights_per_layer];
static double weights[layers * weights_per_layer];

int main(int argc, char** argv) {
  int level, rank, ranks, wrong = 0;
  MPI_Request request;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  MPIX_Pallreduce_init(gradient, sum, layers, weights_per_layer, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
  for (int step = 0; step < steps; ++step) {
    MPI_Start(&request);
#pragma omp parallel for schedule(dynamic)
    for (int layer = layers - 1; layer >= 0; --layer) { /* the last layer first, as its gradient is known first */
      for (int i = 0; i < weights_per_layer; ++i) gradient[layer * weights_per_layer + i] = rank + 1;
      MPI_Pready(layer, request);
    }
    for (int layer = layers - 1; layer >= 0; --layer) {
      int arrived = 0;
      while (!arrived) MPI_Parrived(request, layer, &arrived);
      for (int i = 0; i < weights_per_layer; ++i)
        weights[layer * weights_per_layer + i] += sum[layer * weights_per_layer + i];
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);

  const double expected = steps * ranks * (ranks + 1) / 2.0;
  for (int i = 0; i < layers * weights_per_layer; ++i) wrong |= weights[i] != expected;
  if (rank == 0) printf("%.0f, which is %s\n", weights[0], wrong ? "wrong" : "right");
  MPI_Finalize();
  return wrong;
}
